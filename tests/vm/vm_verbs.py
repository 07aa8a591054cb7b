#!/usr/bin/env python3
"""The provider over rdma-core (lnd/rc/verbs) keeps the contract of lnd/rc/rc.h: the tests of unit_rc, in a guest with
rdma_rxe. The guest has several devices, and each one gets its share of the tests, since some of them wait for long.
"""
import os
import re

import vm

MINUTES = 60
DEVICES = 4


def main():
    programs = {'/usr/bin/rc_verbs_test': os.environ['ULNET_RC_VERBS_TEST']}
    with vm.Lab(programs=programs) as lab:
        addresses = {f'br{index}': f'10.0.{index}.1' for index in range(DEVICES)}
        for bridge in addresses:
            lab.bridge(bridge, mtu=9000)
        guest = lab.guest('a', {bridge: f'{address}/24' for bridge, address in addresses.items()}, rxe=True)
        lab.wait_ready()
        only = os.environ.get('GTEST_FILTER', '*')
        shares = [guest.start(f'export GTEST_TOTAL_SHARDS={DEVICES} GTEST_SHARD_INDEX={index}\n'
                              f"ULNET_RC_ADDRESS={address} rc_verbs_test --gtest_filter='{only}'")
                  for index, address in enumerate(addresses.values())]
        outputs = [share.wait(10 * MINUTES, status=None) for share in shares]
        print(*outputs, sep='\n', flush=True)
        for output in outputs:
            assert re.search(r'\[  PASSED  \] \d+ test', output) and '[  FAILED  ]' not in output, output
        assert any(re.search(r'\[  PASSED  \] [1-9]', output) for output in outputs)
    print('vm_verbs: passed')


if __name__ == '__main__':
    main()
