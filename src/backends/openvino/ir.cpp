#include "backends/openvino/ir.hpp"

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

Result<void> write_ir(const Model& model, const std::filesystem::path& xml) {
    LATHE_TRY(const std::shared_ptr<ov::Model> converted, to_openvino(model));
    return guarded("OpenVINO cannot write the model", xml.string(), [&]() -> Result<void> {
        ov::serialize(converted, xml.string(), std::filesystem::path(xml).replace_extension(".bin").string());
        return {};
    });
}

} // namespace lathe::openvino
