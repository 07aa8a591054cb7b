#include <gtest/gtest.h>

#include "control/api/base64.h"

namespace ulnet::api {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// RFC 4648 §10.
TEST(ApiBase64, vectors_of_the_rfc) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : vectors) EXPECT_EQ(base64_encode(bytes_of(plain)), text);
}

TEST(ApiBase64, every_length_and_byte_comes_back) {
  std::string plain;
  for (int length = 0; length < 600; ++length) {
    const auto back = base64_decode(base64_encode(bytes_of(plain)));
    ASSERT_TRUE(back.has_value());
    ASSERT_TRUE(std::ranges::equal(*back, bytes_of(plain))) << length;
    plain += char(length * 7);
  }
}

TEST(ApiBase64, text_that_is_not_base64_is_refused) {
  for (const char* text : {"Zg=", "Z", "Zm9v!", "Zm9-", "=Zg=", "Z===", "Zg==Zg=="})
    EXPECT_FALSE(base64_decode(text).has_value()) << text;
}

}  // namespace
}  // namespace ulnet::api
