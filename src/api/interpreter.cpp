#include "api/interpreter.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "bench/process.hpp"
#include "onnx/onnx.hpp"
#include "support/files.hpp"
#include "support/json_fault.hpp"
#include "support/python.hpp"

namespace lathe {
namespace {

/// ONNX's reference computes a convolution in seconds; a hang must still end.
constexpr std::chrono::seconds compute_limit{1200};

/// Types that NumPy has under our names.
bool numpy_has(DataType type) {
    switch (type) {
        case DataType::float16:
        case DataType::float32:
        case DataType::float64:
        case DataType::int8:
        case DataType::int16:
        case DataType::int32:
        case DataType::int64:
        case DataType::uint8:
        case DataType::uint16:
        case DataType::uint32:
        case DataType::uint64:
        case DataType::boolean: return true;
        default: return false;
    }
}

/// The arrays that the worker wrote, as it describes them.
Result<std::vector<HostTensor>> read_outputs(const std::filesystem::path& file, const Json& answer) {
    LATHE_TRY(const auto mapped, MappedFile::open(file));
    std::span<const std::byte> rest = mapped->bytes();
    std::vector<HostTensor> outputs;
    const auto wrong = [](const std::string& what) {
        return Error{ErrorCode::internal, "the worker's answer is not as expected: " + what, "", ""};
    };
    try {
        for (const Json& described : answer.at("outputs")) {
            HostTensor tensor;
            tensor.name = described.at("name").get<std::string>();
            tensor.type = data_type_from_name(described.at("type").get<std::string>());
            tensor.shape = described.at("shape").get<Shape>();
            const std::int64_t count = element_count(tensor.shape);
            if (!numpy_has(tensor.type) || count < 0) return wrong("the type or shape of " + tensor.name);
            const std::size_t size = byte_size(tensor.type, static_cast<std::size_t>(count));
            if (size > rest.size()) return wrong("too few bytes for " + tensor.name);
            tensor.bytes.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(size));
            rest = rest.subspan(size);
            outputs.push_back(std::move(tensor));
        }
    } catch (const Json::exception& error) {
        return wrong(json_fault(error));
    }
    if (!rest.empty()) return wrong("more bytes than arrays");
    return outputs;
}

/// The process, asked once a model.
class Computer {
public:
    Computer(std::unique_ptr<JsonProcess> process, std::string name, Progress& progress)
        : process_(std::move(process)), name_(std::move(name)), progress_(progress) {}

    Result<std::vector<HostTensor>> compute(const Model& model, const std::vector<HostTensor>& inputs,
                                            std::size_t threads) {
        LATHE_TRY(const ScratchFolder scratch, ScratchFolder::create());
        const auto model_file = scratch.path() / "model.onnx";
        const auto input_file = scratch.path() / "inputs.bin";
        const auto output_file = scratch.path() / "outputs.bin";
        Json described = Json::array();
        LATHE_TRY(AtomicFile file, AtomicFile::create(input_file));
        for (const HostTensor& input : inputs) {
            if (!numpy_has(input.type)) {
                return Error{ErrorCode::unsupported,
                             "an input of type " + to_string(input.type) + " cannot be handed to " + name_, input.name,
                             "compare models whose inputs are ordinary floats, integers or booleans"};
            }
            LATHE_CHECK(file.write(std::span<const std::byte>(input.bytes)));
            described.push_back({{"name", input.name}, {"type", to_string(input.type)}, {"shape", input.shape}});
        }
        LATHE_CHECK(file.commit());
        LATHE_CHECK(save_onnx(model, model_file));
        auto answer = process_->ask({{"command", "compute"},
                                     {"model", model_file.string()},
                                     {"file", input_file.string()},
                                     {"inputs", std::move(described)},
                                     {"output", output_file.string()},
                                     {"threads", threads}},
                                    compute_limit, progress_);
        if (!answer) {
            Error error = std::move(answer).error();
            if (error.code != ErrorCode::cancelled) error.message = name_ + ": " + error.message;
            return error;
        }
        LATHE_TRY(std::vector<HostTensor> outputs, read_outputs(output_file, *answer));
        if (outputs.size() != model.graph.outputs.size()) {
            return Error{ErrorCode::internal, "the worker's answer has not all outputs", name_, ""};
        }
        return outputs;
    }

private:
    std::unique_ptr<JsonProcess> process_;
    std::string name_;
    Progress& progress_;
};

} // namespace

Result<Interpreter> start_interpreter(const std::string& name, Progress& progress) {
    const bool runtime = name == "onnxruntime";
    if (!runtime && name != "reference") {
        return Error{ErrorCode::invalid_argument, "not known: " + name, "--against",
                     "onnxruntime, or reference (ONNX's own, slow)"};
    }
    LATHE_TRY(const PythonPlace python, find_python());
    auto process = JsonProcess::start(python_command(python, "lathe_worker"), python_environment(python));
    if (!process) {
        Error error = std::move(process).error();
        error.hint = "install Python 3, or set LATHE_PYTHON to an interpreter that has " +
                     std::string(runtime ? "onnxruntime" : "onnx");
        return error;
    }
    auto started = (*process)->ask({{"command", "interpreter"}, {"kind", name}}, std::chrono::seconds(120), progress);
    if (!started) return std::move(started).error().in("--against " + name);
    Interpreter interpreter;
    interpreter.libraries = started->value("libraries", Json::object());
    const std::string library = runtime ? "onnxruntime" : "onnx";
    const std::string version = interpreter.libraries.value(library, std::string());
    interpreter.title =
        runtime ? "ONNX Runtime " + version + ", each node as written" : "the reference of ONNX " + version;
    auto computer =
        std::make_shared<Computer>(std::move(*process), runtime ? "ONNX Runtime" : "ONNX's reference", progress);
    interpreter.run = [computer](const Model& model, const std::vector<HostTensor>& inputs, std::size_t threads) {
        return computer->compute(model, inputs, threads);
    };
    return interpreter;
}

} // namespace lathe
