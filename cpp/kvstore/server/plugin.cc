// Entry point of libmxlite_server.so.
#include "cpp/kvstore/server/client.h"
#include "cpp/kvstore/server/job_scheduler.h"
#include "cpp/kvstore/server/server.h"

namespace mxlite::server {
namespace {

Options options_of(Role role, const std::string& version) {
  Options options = options_from_environment(role);
  options.version = version;
  return options;
}

class Plugin final : public store::ServerPlugin {
 public:
  std::shared_ptr<store::ServerClient> connect(const std::string& version) override {
    return std::make_shared<Client>(options_of(Role::kWorker, version));
  }
  void run(const std::string& name, const std::string& version, const ServerHooks& hooks) override {
    const Role role = role_from_name(name);
    MX_CHECK(role != Role::kWorker, "run_server_role: role must be scheduler or server, got '",
             name, "'");
    const Options options = options_of(role, version);
    if (role == Role::kScheduler)
      JobScheduler(options).run(hooks.interrupted);
    else
      Server(options).run(hooks);
  }
};

}  // namespace
}  // namespace mxlite::server

extern "C" mxlite::store::ServerPlugin* mxlite_server_plugin() {
  static auto& plugin = *new mxlite::server::Plugin;
  return &plugin;
}
