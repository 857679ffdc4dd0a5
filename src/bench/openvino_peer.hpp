#pragma once

#include <memory>

#include "bench/subject.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// OpenVINO as its own users run it: the model file read, reshaped to the batch size and compiled by OpenVINO alone
/// with its latency hint and defaults, one request with tensors set in place. Nothing of Lathe is between, so that the
/// comparison tells what Lathe's own processing adds and what its session costs. For throughput it is compiled with
/// OpenVINO's throughput hint and its own choice of requests.
/// Takes what OpenVINO reads: .onnx, .xml. Fails if it cannot be read.
Result<std::unique_ptr<Subject>> make_openvino_peer(SubjectInfo info);

} // namespace lathe
