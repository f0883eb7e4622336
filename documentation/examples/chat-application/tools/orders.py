"""The orders of the customer who is signed in. ``context.auxdata`` is the owner of the conversation."""

from ripieno.plugin import ResourceFault

ORDERS = {"ada": {17: "a lamp", 18: "a desk"}, "bob": {21: "a chair"}}


async def list_orders(context, _):
    return [{"number": number, "article": article} for number, article in ORDERS[context.auxdata].items()]


async def cancel_order(context, arguments):
    article = ORDERS[context.auxdata].pop(arguments["number"], None)
    if article is None:
        raise ResourceFault("The customer has no order of this number.", suggestion="List the orders first.")
    return f"Canceled: {article}."
