from ripieno.assembly import Assembly as Assembly
from ripieno.assembly import assemble as assemble
from ripieno.assembly import prepare_ensembles as prepare_ensembles
from ripieno.canisters import AssistantCanister as AssistantCanister
from ripieno.canisters import ResultCanister as ResultCanister
from ripieno.canisters import SupervisorCanister as SupervisorCanister
from ripieno.canisters import UserCanister as UserCanister
from ripieno.conducting import Run as Run
from ripieno.conducting import conduct as conduct
from ripieno.confirmation import Approve as Approve
from ripieno.confirmation import Deny as Deny
from ripieno.confirmation import Edit as Edit
from ripieno.contents import ImageContent as ImageContent
from ripieno.contents import TextualContent as TextualContent
from ripieno.controls import Controls as Controls
from ripieno.controls import Limits as Limits
from ripieno.controls import Rules as Rules
from ripieno.conversations import Conversation as Conversation
from ripieno.ensembles import Context as Context
from ripieno.ensembles import Ensemble as Ensemble
from ripieno.ensembles import Outcome as Outcome
from ripieno.exceptions import RipienoError as RipienoError
from ripieno.exceptions import ToolFault as ToolFault
from ripieno.execution import Execution as Execution
from ripieno.scripts import run as run
from ripieno.showing import show as show

__version__: str
