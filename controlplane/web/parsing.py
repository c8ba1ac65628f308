"""Form values into the bodies that the API takes, with the same errors."""

from typing import Any, TypeVar

from pydantic import BaseModel, SecretStr, ValidationError

from controlplane.errors import InvalidInputError

Wish = TypeVar("Wish", bound=BaseModel)


def parsed(model: type[Wish], values: dict[str, Any]) -> Wish:
    """A body of `model`.

    Raises:
        InvalidInputError: names the first field that is out of bounds; a secret is not repeated.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "form"
        known = model.model_fields.get(field)
        is_secret = known is not None and known.annotation is SecretStr
        message = str(first["msg"]).removeprefix("Value error, ")
        raise InvalidInputError(
            f"{field}: {message}",
            field=field,
            value=None if is_secret else str(first["input"])[:200],
        ) from None
