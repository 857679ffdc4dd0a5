#pragma once

#include <string>

#include <onnx/onnx_pb.h>

namespace lathe::test {

/// A model's protobuf with every choice of form taken away, so that two files that mean the same are equal byte for
/// byte: elements as raw data, named lists sorted, "ai.onnx" as "", fields at their default left out.
void canonicalize(onnx::ModelProto& model);

/// Deterministic serialization.
std::string canonical_bytes(const onnx::ModelProto& model);

/// What differs first, for a person to read; empty if equal.
std::string first_difference(const onnx::ModelProto& a, const onnx::ModelProto& b);

} // namespace lathe::test
