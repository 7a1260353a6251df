"""gRPC beside HTTP: the native request as protobuf has it. Needs the extra `grpc`; nothing outside imports it."""
