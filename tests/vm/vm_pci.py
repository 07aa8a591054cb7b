#!/usr/bin/env python3
"""o2ib over our RoCE on a NIC that DPDK drives by PCI, in a guest with an IOMMU. The partner is rdma_rxe of another
guest's kernel. Data is verified both ways, in small and in huge pages. The idle worker sleeps. The port is reset under
load, and its cable is pulled.

    vm_pci.py virtio|virtio_rss|e1000e|vmxnet3

ULNET_FULL=1: more operations, and all models; else virtio_rss and e1000e only.
"""
import json
import pathlib
import sys
import time

import vm
from vm import netns
from vm_o2ib import CONFIG, CTL, FULL, SMALL, Machine, verified
from vm_roce import TRANSFERS, Outside, device_counts

OURS, KERNELS = '10.0.0.1@o2ib', '10.0.0.2@o2ib'
# QEMU's model, DPDK's driver, the MTU, and what an idle worker sleeps on.
# DPDK 22.11 offers interrupts of an e1000e that never come. QEMU's vmxnet3 gives DPDK no frame of several buffers.
VIRTIO = 'virtio-net-pci,iommu_platform=on,disable-legacy=on,host_mtu=4200'
NICS = {'virtio': (VIRTIO, 'virtio', 4200, 'interrupt'),
        'virtio_rss': (f'{VIRTIO},mq=on,rss=on,vectors=8', 'virtio', 4200, 'interrupt'),
        'e1000e': ('e1000e', 'e1000', 4200, 'timer'),
        'vmxnet3': ('vmxnet3', 'vmxnet3', 1500, 'interrupt')}
ALWAYS = ('virtio_rss', 'e1000e')
SLEEPY = 10_000  # polls per second of a worker that sleeps; another one has hundreds of thousands
DRIVERS = pathlib.Path('/usr/lib/x86_64-linux-gnu/dpdk')
# Libraries that these need come with them. DPDK loads all that lies in the folder.
LOADED = ('librte_mempool_ring', 'librte_mempool_stack', 'librte_net_{driver}')
PORT_CONFIG = '''ulnet:
    workers: {workers}
    perf_target: true
    devices:
        - name: rail0
          device: 0000:00:02.0
          addresses: [10.0.0.1/24]
          mtu: {mtu}
net:
    - net type: o2ib
      local NI(s):
        - interfaces:
              0: rail0
'''
NOT_ROCE = {'ip_other', 'ip_extension'}  # drops of packets that the guest's kernel sends to groups
ONCE = (('0,4096,1M', 2, 1),)


class Polled(Machine):
    """A guest whose ulnetd has a NIC."""

    def start(self):
        self.launch('pci')
        self.daemon.wait_for('ulnetd: ready', SMALL)
        self.state(OURS, 'up')

    def port(self):
        (port,) = json.loads(self.ctl('--json port show -v 2'))['port']
        return port

    def status(self, word):
        self.guest.until(f"{CTL} port show | grep 'status: {word}'", SMALL)


def both_ways(ours, kernels, transfers=ONCE):
    verified(kernels, OURS, transfers)
    verified(ours, KERNELS, transfers)


def is_clean(ours, kernels):
    """Nobody refuses a packet, and the port drops none."""
    refused, port = device_counts(kernels.guest), ours.port()
    naks = [name for name in port['roce'] if name.startswith('naks')]
    assert not refused and not naks and set(port['drops']) <= NOT_ROCE, (refused, port)
    assert port['roce']['acks_received'] > 0, port


def polls(ours):
    return [queue['polls'] for queue in ours.port()['queue']]


def sleeps(ours, on):
    """An idle worker sleeps. If interrupts do not come, the worker has found that out."""
    said = 'do not come' in ours.daemon.output()
    on_all = {queue['sleeps on'] for queue in ours.port()['queue']}
    assert on_all == {on} and said == (on == 'timer'), (ours.port(), ours.daemon.output())
    began, before = time.monotonic(), polls(ours)
    ours.guest.run('sleep 2', SMALL)
    after, ended = polls(ours), time.monotonic()
    rate = max(new - old for new, old in zip(after, before)) / (ended - began)
    assert rate < SLEEPY, f'{rate} polls/s'
    print(f'asleep, wakes by {on}: {rate:.0f} polls/s', flush=True)


def spread(lab, ours):
    """The NIC spreads peers over the queues, and each is served where its packets arrive: few are handed over. Packets
    of guest `kernels` and of 10.0.0.4 come to queue 0, those of 10.0.0.5 to queue 1.
    """
    before = ours.port()['statistics']['rx packets']
    for number in (4, 5):
        outside = Outside(lab, {0: 'o2ib'}, number)
        outside.daemon.wait_for('ulnetd: ready', SMALL)
        verified(outside, OURS, (('64K', 20, 4),))
    port = ours.port()
    packets = [(queue['rx packets'], queue['tx packets']) for queue in port['queue']]
    assert port['offloads']['rss'] == 'yes' and len(packets) == 2, port
    came, handed_over = port['statistics']['rx packets'] - before, port['roce'].get('handed_over', 0)
    assert min(map(min, packets)) > 100 and handed_over < came / 10, port
    print(f'spread over queues: {packets}, {handed_over} handed over', flush=True)


def reset_under_load(ours, kernels):
    load = kernels.load(f'put {OURS} -c 4')
    before = ours.port()['statistics']['rx packets']
    until = time.monotonic() + SMALL
    while ours.port()['statistics']['rx packets'] < before + 200:
        assert time.monotonic() < until, load.output()
    ours.ctl('port reset --name rail0')
    ours.status('up')
    load.signal('TERM')
    load.wait(3 * SMALL, status=None)  # operations of the reset may have failed
    answered(ours, kernels)
    both_ways(ours, kernels)
    assert ours.port()['statistics']['resets'] == 1, ours.port()
    print('reset: verified again', flush=True)


def answered(ours, kernels):
    for machine, nid in ((kernels, OURS), (ours, KERNELS)):
        machine.guest.until(f'{CTL} ping {nid} --timeout 5', 2 * SMALL)
        machine.recovered(nid)


def cable_pulled(ours, kernels):
    ours.guest.set_carrier(False)
    ours.status('down')
    ours.guest.set_carrier(True)
    ours.status('up')
    answered(ours, kernels)
    both_ways(ours, kernels)
    print('cable: verified again', flush=True)


def huge_pages(ours, kernels):
    """A new process takes the NIC over from the last one, with its packets in huge pages."""
    ours.daemon.signal('TERM')
    ours.daemon.wait(SMALL)
    ours.guest.run('echo 200 >/proc/sys/vm/nr_hugepages', SMALL)
    ours.start()
    assert 'DPDK on huge pages' in ours.daemon.output(), ours.daemon.output()
    answered(ours, kernels)
    both_ways(ours, kernels)
    print('huge pages: verified', flush=True)


def main(nic):
    if nic not in ALWAYS and not FULL:
        netns.skip('with ULNET_FULL=1')
    model, driver, mtu, sleeps_on = NICS[nic]
    workers = 2 if vm.several_queues(model) else 1
    folder = next(iter(DRIVERS.glob('pmds-*')), None)
    if folder is None:
        netns.skip(f'no drivers in {DRIVERS}')
    programs = {f'/usr/bin/{name}': netns.binary(name) for name in ('ulnetd', 'ulnetctl', 'ulnet-perf')}
    for name in LOADED:
        path = folder / f'{name.format(driver=driver)}.so'
        programs[str(path)] = path
    files = {'/etc/ulnet.yaml': CONFIG, '/etc/pci.yaml': PORT_CONFIG.format(mtu=mtu, workers=workers).encode()}
    with vm.Lab(files=files, programs=programs) as lab:
        lab.bridge('br0', mtu=mtu)
        ours = Polled(lab.guest('ours', {'br0': None}, polled=model, memory_mib=1536, cpus=workers))
        kernels = Machine(lab.guest('kernels', {'br0': '10.0.0.2/24'}, rxe=True))
        try:
            lab.wait_ready()
            kernels.launch()
            kernels.join(('o2ib', 'eth0'))
            ours.start()
            both_ways(ours, kernels, TRANSFERS)
            is_clean(ours, kernels)
            if workers > 1:
                spread(lab, ours)
            sleeps(ours, sleeps_on)
            reset_under_load(ours, kernels)
            cable_pulled(ours, kernels)
            huge_pages(ours, kernels)
        except BaseException:
            ours.report()
            kernels.report()
            print(ours.ctl('port show -v 2', status=None), flush=True)
            raise
    print(f'o2ib over our RoCE on {nic}: both ways', flush=True)


if __name__ == '__main__':
    main(sys.argv[1])
