#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/result.hpp"
#include "support/progress.hpp"

namespace lathe::report {

/// The Chromium to draw with: $LATHE_CHROMIUM, else chromium, chromium-browser, google-chrome or google-chrome-stable
/// on the PATH. Failures: not_found if LATHE_CHROMIUM names no program, unsupported if there is none; both say the
/// cure.
Result<std::filesystem::path> find_chromium();

/// Arguments for a headless start that touches nothing of the user's: own profile folder, no network chatter. Root has
/// no sandbox to go to, so only root gets --no-sandbox.
std::vector<std::string> chromium_arguments(const std::filesystem::path& program, const std::filesystem::path& profile);

/// Draws every chart of a page (see render_html) and writes it as `folder`/NAME.png, 1920 pixels wide on white, the
/// same picture as the page's own PNG buttons give. Makes the folder. Returns the files, in the page's order.
Result<std::vector<std::filesystem::path>> write_images(const std::string& html, const std::filesystem::path& folder,
                                                        Progress& progress = no_progress(),
                                                        std::chrono::milliseconds limit = std::chrono::seconds(120));

/// The bytes of base64 text (RFC 4648), or parse_error.
Result<std::string> decode_base64(std::string_view text);

} // namespace lathe::report
