"""The one pipeline from an invocation to its result: resolve, validate, confirm, schedule, run, bound, record.

``pipeline`` runs the stages in order, ``preparation`` resolves and validates, ``approval`` confirms, ``scheduling``
orders the calls of a turn, ``call`` runs one, ``retries`` repeats it, ``cache`` reuses results, ``records`` writes
records.
"""

from ripieno.execution.context import Circumstances, Deferred, Prepared
from ripieno.execution.pipeline import Execution, execute_invoker

__all__ = ["Circumstances", "Deferred", "Execution", "Prepared", "execute_invoker"]
