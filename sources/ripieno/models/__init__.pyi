from ripieno.models.model import Model as Model
from ripieno.models.model import Provider as Provider
from ripieno.models.protocol import ControlsProcessor as ControlsProcessor
from ripieno.models.protocol import InvocationsProcessor as InvocationsProcessor
from ripieno.models.protocol import MessagesProcessor as MessagesProcessor
from ripieno.models.protocol import Protocol as Protocol
