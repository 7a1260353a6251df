"""What the proto file says, as the plain tables that docs/grpc.json keeps."""

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from halfline.api.rpc import halfline_pb2 as pb


def described() -> dict[str, Any]:
    """Messages by name and number of field, enums by name and number, methods by service and name."""
    file = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    return {
        "package": file.package,
        "services": {
            service.name: {
                method.name: {
                    "takes": _short(method.input_type, file.package, streams=method.client_streaming),
                    "returns": _short(method.output_type, file.package, streams=method.server_streaming),
                }
                for method in service.method
            }
            for service in file.service
        },
        "enums": {
            enum.name: {str(value.number): value.name for value in enum.value} for enum in file.enum_type
        },
        "messages": dict(_messages(file)),
    }


def _messages(file: FileDescriptorProto) -> list[tuple[str, dict[str, Any]]]:
    """Those that are entries of a map among them."""
    found = []
    todo = [("", message) for message in file.message_type]
    while todo:
        outer, message = todo.pop(0)
        name = outer + message.name
        todo += [(f"{name}.", nested) for nested in message.nested_type]
        oneofs = [oneof.name for oneof in message.oneof_decl]
        fields = {str(field.number): _field(field, oneofs, file.package) for field in message.field}
        found.append((name, fields))
    return found


def _field(field: FieldDescriptorProto, oneofs: list[str], package: str) -> dict[str, Any]:
    """`oneof` None: it stands alone; whether an optional one was sent is no choice among several."""
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
    chosen = field.HasField("oneof_index") and not field.proto3_optional
    return {
        "name": field.name,
        "type": _short(field.type_name, package) if field.type_name else kind,
        "label": "presence" if field.proto3_optional else label,
        "oneof": oneofs[field.oneof_index] if chosen else None,
    }


def _short(name: str, package: str, *, streams: bool = False) -> str:
    return ("stream " if streams else "") + name.removeprefix(f".{package}.")
