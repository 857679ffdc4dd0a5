#include "backends/openvino/ir.hpp"

#include <algorithm>
#include <cstring>

#include "backends/openvino/core.hpp"
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

} // namespace

Result<void> write_ir(const Model& model, const std::filesystem::path& xml) {
    LATHE_TRY(const std::shared_ptr<ov::Model> converted, to_openvino(model));
    return guarded("OpenVINO cannot write the model", xml.string(), [&]() -> Result<void> {
        ov::serialize(converted, xml.string(), std::filesystem::path(xml).replace_extension(".bin").string());
        return {};
    });
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
        ov::CompiledModel compiled =
            core().compile_model(model, "CPU", properties(Precision::float32, 1, cores, false));
        ov::InferRequest request = compiled.create_infer_request();
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const HostTensor& input = *inputs[i];
            ov::Tensor tensor(element_type(input.type), ov::Shape(input.shape.begin(), input.shape.end()));
            std::memcpy(tensor.data(), input.bytes.data(), std::min(input.bytes.size(), tensor.get_byte_size()));
            request.set_input_tensor(i, tensor);
        }
        request.infer();
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
