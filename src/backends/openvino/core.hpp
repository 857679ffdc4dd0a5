#pragma once

// OpenVINO's headers are included by the files of this folder only.

#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openvino/openvino.hpp>

#include "backends/api/backend.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::openvino {

/// The process's one ov::Core, made at the first call. Throws what OpenVINO throws.
ov::Core& core();

/// "2026.4.1-..." as the library tells it.
std::string library_version();

/// OpenVINO's element type, or `dynamic` for types it lacks (string, complex, ...).
ov::element::Type element_type(DataType type);
DataType data_type(const ov::element::Type& type);

/// The last, telling line of an OpenVINO message (its traces name source files of OpenVINO itself).
std::string brief(const std::string& message);

/// Runs `body` (returning a Result) and turns anything thrown into an Error: `what` failed at `where`.
template <class Body>
auto guarded(const std::string& what, const std::string& where, Body&& body) -> decltype(body()) {
    try {
        return std::forward<Body>(body)();
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::out_of_memory, what + ": out of memory", where, "use a smaller batch or model"};
    } catch (const std::exception& error) {
        // Threads that cannot be started, for want of memory for their stacks as a rule; allocations of its own
        // libraries.
        const std::string_view said = error.what();
        if (said.find("Resource temporarily unavailable") != said.npos || said.find("bad_alloc") != said.npos) {
            return Error{ErrorCode::out_of_memory, what + ": out of memory, or of threads", where,
                         "use a smaller batch or model, or raise the limits (ulimit -v, ulimit -u)"};
        }
        return Error{ErrorCode::unsupported, what + ": " + brief(error.what()), where, ""};
    } catch (...) {
        return Error{ErrorCode::internal, what + ": OpenVINO threw something unknown", where, ""};
    }
}

/// An ONNX file cannot exceed protobuf's 2 GB. Models with more weights than `most_serialized` bytes are read without
/// those of at least `least_taken` bytes, which OpenVINO then uses where they lie in memory.
struct WeightLimits {
    std::size_t most_serialized = std::size_t{3} << 29;
    std::size_t least_taken = std::size_t{1} << 20;
};

/// OpenVINO's form of the model (through ONNX). The error says which operations are not known.
Result<std::shared_ptr<ov::Model>> to_openvino(const Model& model, const WeightLimits& limits = {});

/// Refuses a ScatterElements whose indices may be more along another axis than its data, which OpenVINO does not check:
/// it writes behind the data. For a model whose inputs have the sizes that it is to be compiled for.
Result<void> check_scatters(const ov::Model& model);

/// In place of a port: OpenVINO has no parameter for this input, since no output depends on it. Such an input belongs
/// to the model all the same: it is described and checked, and its values go nowhere.
inline constexpr std::size_t unread = std::numeric_limits<std::size_t>::max();

/// OpenVINO's index of each input, or `unread`. Fails if OpenVINO asks for something that is none of the names.
Result<std::vector<std::size_t>> input_ports_of(const std::vector<ov::Output<ov::Node>>& ports,
                                                const std::vector<std::string>& names);

/// Shows every node, those of bodies before the rest; a model of which `change` changed a node is inferred anew.
void change_nodes(ov::Model& model, const std::function<bool(const std::shared_ptr<ov::Node>&)>& change);

bool reads_constant(const ov::Node& node, std::size_t input);

/// Maximum(x, x), which is x, behind a value: OpenVINO neither leaves it out nor gathers what is on its two sides.
std::shared_ptr<ov::Node> same_value(const ov::Output<ov::Node>& value);

/// Has a node read what it reads behind such a Maximum.
void set_input_apart(ov::Node& node, std::size_t input);

/// Runs a request and waits. Of a model compiled for one thread `ov::InferRequest::infer` (2026.4) loses what a kernel
/// throws: it returns as if all were well, the outputs hold what they held, and the process may crash in a later run.
/// This throws; it takes about 5 us more, so it is for what can fail: where shapes inside depend on what is given.
inline void run_and_wait(ov::InferRequest& request) {
    request.start_async();
    request.wait();
}

/// Properties for compiling or importing: explicit precision (the CPU plugin would pick bf16 by itself where the
/// processor has it), `streams` of `threads / streams` threads each.
ov::AnyMap properties(Precision precision, std::size_t streams, std::size_t threads, bool profiling);

/// Whether a node is of one of these types.
template <class... Types>
bool is_one_of(const ov::Node& node) {
    return (ov::is_type<Types>(&node) || ...);
}

} // namespace lathe::openvino
