"""Calls that stand in the text of an answer: one room for every form, whoever has to read them.

``scanning.Parser`` takes a text apart while it comes. ``table.FORMS`` lists the forms, each in the module of its
family with examples; ``bodies`` finds where a call ends, ``places`` knows what is code, and ``values`` reads names and
arguments. ``interpreting`` makes events of it, for answers whose calls are left in the text.

What holds for all forms:

* The same text gives the same pieces, however it is cut, and nothing of it is lost.
* Code fences, inline code, quotations (``>``, and frames of tools' output) have no calls in them.
* What is no complete frame stays text. A complete one whose arguments cannot be read is a call with a fault, so that
  the model hears of it. JSON is strict, and nothing is repaired.
* Values between tags are text where the schema of the tool says so, or nothing; otherwise JSON.
* A value between tags can hold anything but its own end. Where a model writes what others wrote, JSON is safer.
"""
