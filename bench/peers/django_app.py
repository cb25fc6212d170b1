"""Django REST framework: nested serializers, one row and one job an account.

Tuned as its documentation says: no middleware, no authentication, no browsable API, persistent database connections,
workers of gunicorn that stay. The row holds the JSON that was sent; the job is a row beside it, in one transaction.
"""

import os
import secrets
import sys
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import django
import msgspec
from django.conf import settings
from msgspec import NODEFAULT, Meta, UnsetType
from psycopg.conninfo import conninfo_to_dict

_SERVER = conninfo_to_dict(os.environ["DATABASE_ADMIN_URL"])

settings.configure(
    DEBUG=False,
    SECRET_KEY=secrets.token_urlsafe(),
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[],
    INSTALLED_APPS=["rest_framework"],
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _SERVER["dbname"],
            **{name.upper(): _SERVER[name] for name in ("host", "port", "user", "password") if name in _SERVER},
            "CONN_MAX_AGE": None,
        }
    },
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_PERMISSION_CLASSES": [],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
        "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
        "UNAUTHENTICATED_USER": None,
    },
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402 - what follows needs the settings
from django.db import connection, models, transaction  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402
from gunicorn.app.base import BaseApplication  # noqa: E402
from rest_framework import serializers  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from schemas.account import Account  # noqa: E402


class Imported(models.Model):
    account = models.JSONField()

    class Meta:
        app_label = "bench"
        db_table = "bench_imported"


class Job(models.Model):
    imported = models.ForeignKey(Imported, on_delete=models.CASCADE)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "bench"
        db_table = "bench_job"


@cache
def serializer_of(wire_type: type) -> type[serializers.Serializer]:
    """Return a serializer as a developer would write it for this shape: the same names, types and lengths."""
    fields = {
        field.name: _field(field.type, {} if field.default is NODEFAULT else {"required": False})
        for field in msgspec.structs.fields(wire_type)
    }
    return type(f"{wire_type.__name__}Serializer", (serializers.Serializer,), fields)


def _field(hint: Any, options: dict[str, Any]) -> serializers.Field:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for meta in arguments[1:]:
            if isinstance(meta, Meta) and arguments[0] is str:
                lengths = {"max_length": meta.max_length, "min_length": meta.min_length}
                options = options | {name: length for name, length in lengths.items() if length}
        return _field(arguments[0], options)
    if type(None) in arguments or UnsetType in arguments:
        inner = next(argument for argument in arguments if argument not in (type(None), UnsetType))
        return _field(inner, options | {"allow_null": True, "required": False})
    if origin is tuple:
        child = _field(arguments[0], {})
        return serializers.ListField(child=child, **options)
    if origin is Literal:
        return serializers.ChoiceField(choices=arguments, **options)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return serializer_of(hint)(**options)
    if hint is str:
        return serializers.CharField(allow_blank="min_length" not in options, **options)
    kinds = {bool: "BooleanField", int: "IntegerField", date: "DateField", datetime: "DateTimeField"}
    if hint in kinds:
        return getattr(serializers, kinds[hint])(**options)
    if hint is Decimal:
        return serializers.DecimalField(max_digits=28, decimal_places=10, **options)
    return serializers.JSONField(**options)


AccountSerializer = serializer_of(Account)
_LENGTH = {"Content-Length": "2"}
"""Length of `{}`, which a middleware sets otherwise."""


class Validate(APIView):
    def post(self, request: Any) -> Response:
        AccountSerializer(data=request.data).is_valid(raise_exception=True)
        return Response({}, headers=_LENGTH)


class Create(APIView):
    def post(self, request: Any) -> Response:
        AccountSerializer(data=request.data).is_valid(raise_exception=True)
        with transaction.atomic():
            Job.objects.create(imported=Imported.objects.create(account=request.data))
        return Response({}, status=201, headers=_LENGTH)


urlpatterns = [
    path("livez", lambda request: HttpResponse("{}")),
    path("v2/data-import/accounts/validate/", Validate.as_view()),
    path("v2/data-import/accounts/", Create.as_view()),
]


class Server(BaseApplication):
    """gunicorn with a worker for each core, as the service has."""

    def load_config(self) -> None:
        options = {"bind": f"127.0.0.1:{sys.argv[1]}", "workers": os.cpu_count() or 1, "worker_class": "gthread"}
        for name, value in (options | {"threads": 4, "keepalive": 75, "loglevel": "error"}).items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return get_wsgi_application()


def main() -> None:
    with connection.schema_editor() as editor:
        existing = connection.introspection.table_names()
        for model in (Imported, Job):
            if model._meta.db_table not in existing:
                editor.create_model(model)
    connection.close()
    Server().run()


if __name__ == "__main__":
    main()
