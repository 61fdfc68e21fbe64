// Finds the address of this host that peers on other hosts should connect to.
#pragma once

#include <string>

namespace dpbench {

// Returns the local address of the route to MASTER_ADDR, without sending anything. Throws UsageError if there is no
// route.
std::string address_towards_master();

// Returns the name of the interface with this address, or an empty string.
std::string interface_of(const std::string& address);

}  // namespace dpbench
