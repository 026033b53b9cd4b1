"""The only room that knows grpc and protobuf messages."""
