from ripieno.assembly.assembly import Assembly as Assembly
from ripieno.assembly.shortcuts import assemble as assemble
