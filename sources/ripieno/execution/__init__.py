"""The one pipeline from an invocation to its result: resolve, validate, confirm, run, bound, record.

``pipeline`` has the pipeline, ``circumstances`` what goes through it, ``preparing`` what is resolved and validated,
``judging`` what the rules say, ``confirming`` what somebody is asked about, ``launching`` what starts a call,
``reporting`` what is written down and told, ``refusals`` the words for a call that is not run.
"""

from ripieno.execution.circumstances import Circumstances, Deferred, Prepared
from ripieno.execution.pipeline import Execution, execute_invoker

__all__ = ["Circumstances", "Deferred", "Execution", "Prepared", "execute_invoker"]
