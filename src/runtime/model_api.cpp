#include "lathe/model.hpp"

#include "graph/graph.hpp"
#include "onnx/onnx.hpp"

namespace lathe {

void ModelDeleter::operator()(Model* model) const { delete model; }

Result<ModelPtr> load_model(const std::filesystem::path& path) {
    LATHE_TRY(Model model, load_onnx(path));
    return ModelPtr(new Model(std::move(model)));
}

Result<void> save_model(const Model& model, const std::filesystem::path& path) { return save_onnx(model, path); }

} // namespace lathe
