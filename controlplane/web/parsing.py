"""Form values into the bodies that the API takes, with the same errors."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from controlplane.errors import InvalidInputError

Wish = TypeVar("Wish", bound=BaseModel)


def parsed(model: type[Wish], values: dict[str, Any]) -> Wish:
    """A body of `model`.

    Raises:
        InvalidInputError: names the first field that is out of bounds.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "form"
        raise InvalidInputError(
            f"{field}: {first['msg']}", field=field, value=str(first["input"])[:200]
        ) from error
