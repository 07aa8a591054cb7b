// The builders of the command tree, one for each command, by the file that they are in. Only for tools/ulnetctl.
#pragma once
#include "tools/ulnetctl/command.h"

namespace ulnet::ctl {

using Build = Built(const Words& words, const Env& env);

Build lnet_configure, lnet_unconfigure, net_add, net_del, net_show, net_set;  // build_net.cc
Build route_add, route_del, route_show, routing_show;                         // build_route.cc
Build peer_add, peer_del, peer_show, peer_list, peer_set, ping, discover;     // build_peer.cc
Build set_value, global_show, stats_show, stats_reset;                        // build_settings.cc
Build udsp_add, udsp_del, udsp_show, policy_del, policy_show;                 // build_udsp.cc
Build selection_net_add, selection_net_del, selection_net_show;               // build_udsp.cc
Build selection_nid_add, selection_nid_del, selection_nid_show;               // build_udsp.cc
Build selection_peer_add, selection_peer_del, selection_peer_show;            // build_udsp.cc
Build port_show, port_reset, capture;                                         // build_port.cc
Build recovery, debug_peer, debug_nidlist, service_id, cpt_of_nid;            // build_other.cc
Build setup_mrrouting, setup_sysctl, explain, watch;                          // and build_explain.cc, build_watch.cc
Build fault_drop_add, fault_drop_del, fault_drop_reset, fault_drop_show;      // build_fault.cc
Build fault_delay_add, fault_delay_del, fault_delay_reset, fault_delay_show;  // build_fault.cc
Build import_file, export_file, convert;                                      // build_file.cc, convert.cc

}  // namespace ulnet::ctl
