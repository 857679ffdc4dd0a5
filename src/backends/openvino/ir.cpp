#include "backends/openvino/ir.hpp"

#include <algorithm>
#include <cstring>
#include <ostream>
#include <streambuf>
#include <string_view>
#include <utility>

#include <openvino/pass/serialize.hpp>

#include "backends/openvino/core.hpp"
#include "backends/openvino/long_chains.hpp"
#include "support/files.hpp"
#include "support/thread_pool.hpp"

namespace lathe::openvino {

namespace {

std::string name_of(const ov::Output<ov::Node>& port) {
    return port.get_names().empty() ? port.get_node()->get_friendly_name() : port.get_any_name();
}

ValueInfo info_of(const ov::Output<ov::Node>& port) {
    ValueInfo info;
    info.name = name_of(port);
    info.type = data_type(port.get_element_type());
    if (port.get_partial_shape().rank().is_dynamic()) return info;
    info.dims.emplace();
    for (const ov::Dimension& size : port.get_partial_shape())
        info.dims->push_back(size.is_static() ? Dimension::of(size.get_length()) : Dimension{});
    return info;
}

/// Lets OpenVINO write to a file of ours, which tells why it cannot be written: OpenVINO does not.
class FileBuffer final : public std::streambuf {
public:
    explicit FileBuffer(AtomicFile& file) : file_(file) {}
    Result<void> result() { return std::move(result_); }

private:
    std::streamsize xsputn(const char* text, std::streamsize size) override {
        if (result_) result_ = file_.write(std::string_view(text, static_cast<std::size_t>(size)));
        return result_ ? size : 0;
    }
    int_type overflow(int_type character) override {
        const char text = traits_type::to_char_type(character);
        return xsputn(&text, 1) == 1 ? character : traits_type::eof();
    }
    /// Where the next byte goes; asked for, never changed.
    pos_type seekoff(off_type offset, std::ios_base::seekdir from, std::ios_base::openmode) override {
        return offset == 0 && from == std::ios_base::cur ? pos_type(static_cast<off_type>(file_.size())) : pos_type(-1);
    }

    AtomicFile& file_;
    Result<void> result_;
};

} // namespace

Result<void> write_ir(const Model& model, const std::filesystem::path& xml) {
    LATHE_TRY(const std::shared_ptr<ov::Model> converted, to_openvino(model));
    LATHE_TRY(AtomicFile graph, AtomicFile::create(xml));
    LATHE_TRY(AtomicFile weights, AtomicFile::create(std::filesystem::path(xml).replace_extension(".bin")));
    FileBuffer graph_buffer(graph);
    FileBuffer weights_buffer(weights);
    LATHE_CHECK(guarded("OpenVINO cannot write the model", xml.string(), [&]() -> Result<void> {
        std::ostream graph_stream(&graph_buffer);
        std::ostream weights_stream(&weights_buffer);
        ov::pass::Serialize(graph_stream, weights_stream).run_on_model(converted);
        return {};
    }));
    LATHE_CHECK(weights_buffer.result());
    LATHE_CHECK(graph_buffer.result());
    LATHE_CHECK(weights.commit());
    return graph.commit();
}

Result<IrModel> IrModel::load(const std::filesystem::path& xml) {
    std::error_code failed;
    if (!std::filesystem::is_regular_file(xml, failed))
        return Error{ErrorCode::not_found, "there is no such file", xml.string(), ""};
    return guarded("OpenVINO cannot read the model", xml.string(), [&]() -> Result<IrModel> {
        const std::shared_ptr<ov::Model> model = core().read_model(xml.string());
        IrModel ir;
        ir.file_ = xml;
        ir.interface_.graph.name = model->get_friendly_name();
        for (const auto& input : model->inputs())
            ir.interface_.graph.inputs.push_back(info_of(input));
        for (const auto& output : model->outputs())
            ir.interface_.graph.outputs.push_back(info_of(output));
        ir.model_ = model;
        return ir;
    });
}

Result<std::vector<HostTensor>> IrModel::run(const std::vector<const HostTensor*>& inputs, std::size_t threads) const {
    return guarded("OpenVINO cannot run the model", file_.string(), [&]() -> Result<std::vector<HostTensor>> {
        const auto model = std::static_pointer_cast<ov::Model>(model_);
        const std::size_t cores = threads > 0 ? threads : available_cores();
        ov::CompiledModel compiled = compile_on_cpu(model->clone(), properties(Precision::float32, 1, cores, false));
        ov::InferRequest request = compiled.create_infer_request();
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const HostTensor& input = *inputs[i];
            ov::Tensor tensor(element_type(input.type), ov::Shape(input.shape.begin(), input.shape.end()));
            std::memcpy(tensor.data(), input.bytes.data(), std::min(input.bytes.size(), tensor.get_byte_size()));
            request.set_input_tensor(i, tensor);
        }
        run_and_wait(request);
        std::vector<HostTensor> outputs;
        for (std::size_t i = 0; i < compiled.outputs().size(); ++i) {
            const ov::Tensor tensor = request.get_output_tensor(i);
            const ov::Shape& shape = tensor.get_shape();
            HostTensor output(interface_.graph.outputs[i].name, data_type(tensor.get_element_type()),
                              Shape(shape.begin(), shape.end()));
            std::memcpy(output.bytes.data(), tensor.data(), std::min(output.bytes.size(), tensor.get_byte_size()));
            outputs.push_back(std::move(output));
        }
        return outputs;
    });
}

} // namespace lathe::openvino
