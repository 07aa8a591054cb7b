#!/usr/bin/env python3
"""The provider over rdma-core (lnd/rc/verbs) keeps the contract of lnd/rc/rc.h: the tests of unit_rc, in a guest with
rdma_rxe.
"""
import os
import re

import vm

MINUTES = 60


def main():
    programs = {'/usr/bin/rc_verbs_test': os.environ['ULNET_RC_VERBS_TEST']}
    with vm.Lab(programs=programs) as lab:
        lab.bridge('br0', mtu=9000)
        guest = lab.guest('a', {'br0': '10.0.0.1/24'}, rxe=True)
        lab.wait_ready()
        only = os.environ.get('GTEST_FILTER', '*')
        command = f"ULNET_RC_ADDRESS=10.0.0.1 rc_verbs_test --gtest_filter='{only}'"
        output = guest.run(command, 10 * MINUTES, status=None)
        print(output, flush=True)
        assert re.search(r'\[  PASSED  \] [1-9]\d* test', output) and '[  FAILED  ]' not in output, output
    print('vm_verbs: passed')


if __name__ == '__main__':
    main()
