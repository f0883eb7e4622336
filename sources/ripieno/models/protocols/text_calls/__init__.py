"""Parser of calls in the text of an answer, for all forms and all users.

``scanner.Parser`` parses a text while it streams. ``openings.py`` lists the forms of ``forms/``, which has one file
with examples for each family. ``grammar.py`` finds where a call ends, ``places.py`` knows what is code, ``values.py``
reads names and arguments. ``interpreter.py`` makes events of calls that are left in the text of an answer.

For all forms:

* The same text gives the same pieces, however it is cut, and no text is lost.
* Code fences, inline code and quotations (``>``, and frames of tools' output) have no calls in them.
* An incomplete frame stays text. A complete frame with unreadable arguments is a call with a fault, so that the model
  gets an error. JSON is strict, and nothing is repaired.
* A value between tags is text if the tool's schema says so, or says nothing; otherwise it is JSON.
* A value between tags can contain anything but its own end tag. For a model that quotes others' text, JSON is safer.
"""
