"""The models that clients may request, under the operator's names."""

from collections.abc import Mapping

from frozendict import frozendict

from ripieno.assembly import Assembly
from ripieno.descriptors import GatewayDescriptor
from ripieno.exceptions import InputError, NameAbsence
from ripieno.jsonvalues import encode
from ripieno.models import Model
from ripieno.servers.http.models import model_entry, model_list

#: The name for all other names.
ANY = "*"


class Names:
    """Names of models. All models are created at the start, so that a wrong name is reported then.

    A model has its identity, ``provider/model``; its bare name, if it is unique; and the names that map to it. Without
    models and map, it is the default model. Errors: ``InputError``.
    """

    def __init__(self, assembly: Assembly, settings: GatewayDescriptor) -> None:
        known: dict[str, Model] = {}
        bare: dict[str, list[Model]] = {}
        identities = settings.models
        if not identities and not settings.map:
            if assembly.configuration.model is None:
                raise InputError(
                    "There is no model to serve. Name one: --model provider/model, --map "
                    'NAME=provider/model, or models = ["provider/model"] under [gateway].'
                )
            identities = (assembly.configuration.model,)
        for identity in identities:
            default = identity == assembly.configuration.model
            model = assembly.access_model(None if default else identity)
            known[identity] = model
            bare.setdefault(model.name, []).append(model)
        for name, models in bare.items():
            if len(models) == 1:
                known.setdefault(name, models[0])
        for name, identity in settings.map.items():
            model = known[name] = assembly.access_model(identity)
            if name == ANY:
                known.setdefault(identity, model)
        for model in dict.fromkeys(known.values()):
            model.open()
        self._any = known.pop(ANY, None)
        self._known: Mapping[str, Model] = frozendict[str, Model](known)
        self.listed = encode(model_list(tuple(self._known)))

    def resolve(self, name: str) -> Model:
        """The model of this name. Errors: ``NameAbsence``."""
        model = self._known.get(name) or self._any
        if model is None:
            raise NameAbsence("model", name, self._known)
        return model

    def one(self, name: str) -> bytes | None:
        """The description of one model, or None."""
        return encode(model_entry(name)) if name in self._known else None
