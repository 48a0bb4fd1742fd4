"""The OpenAPI description of the service."""

from __future__ import annotations

from typing import Any

from nispa import __version__
from nispa.model import Model


def schema(model: Model) -> dict[str, Any]:
    text, number = {"type": "string"}, {"type": "number"}
    answer = {
        "type": "object",
        "required": ["task", "label", "probability"],
        "properties": {
            "task": text,
            "label": text,
            "probability": number,
            "probabilities": {"type": "object", "additionalProperties": number},
        },
    }
    prediction = {
        "type": "object",
        "required": ["task", "label", "probability", "answers"],
        "properties": {
            "task": {**text, "description": "the task asked for, or the likeliest one"},
            "label": text,
            "probability": number,
            "answers": {"type": "array", "items": answer},
        },
    }
    failure = {"type": "object", "required": ["error"], "properties": {"error": text}}
    body: dict[str, Any]
    if model.inputs.kind == "pictures":
        binary = {"schema": {"type": "string", "format": "binary"}}
        body = dict.fromkeys(("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"), binary)
    else:
        rows = {"type": "array", "items": {"type": "array", "items": number}}
        body = {"application/json": {"schema": {"type": "object", "properties": {"features": rows}}}}

    def answers(what: dict[str, Any], line: str) -> dict[str, Any]:
        return {"description": line, "content": {"application/json": {"schema": what}}}

    failures = {
        "400": "not a readable picture, or no numbers",
        "404": "no such task",
        "408": "the body came too slowly",
        "409": "the model has learned nothing yet",
        "413": "too large",
        "503": "too many requests at once",
    }
    predictions = {
        "type": "object",
        "properties": {"predictions": {"type": "array", "items": prediction}},
    }
    names = [task.name for task in model.tasks]
    task = {"name": "task", "in": "query", "required": False, "schema": {**text, "enum": names}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"NISPA model {model.path.name}", "version": __version__},
        "paths": {
            "/v1/predict": {
                "post": {
                    "summary": "What a picture shows, or what samples are",
                    "parameters": [task],
                    "requestBody": {"required": True, "content": body},
                    "responses": {
                        "200": answers(predictions, "one prediction a sample"),
                        **{code: answers(failure, line) for code, line in failures.items()},
                    },
                }
            },
            "/v1/model": {
                "get": {"summary": "Tasks, classes, room", "responses": {"200": answers({}, "about")}}
            },
            "/health": {"get": {"summary": "Is it up?", "responses": {"200": answers({}, "up")}}},
        },
    }
