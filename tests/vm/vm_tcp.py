#!/usr/bin/env python3
"""The binaries of this build run in guests: ulnetd on three machines, each with a kernel of its own. Client and server
get their nets from ulnetctl, the router has two interfaces and a configuration file. They ping each other, both ways
and through the router.
"""
import vm
from vm import netns

SMALL = 60
CTL = 'ulnetctl --socket /run/ulnet.sock'
ROUTER_YAML = b'''net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: eth0
    - net type: tcp1
      local NI(s):
        - interfaces:
              0: eth1
routing:
    enable: 1
buffers:
    tiny: 512
    small: 512
    large: 64
ulnet:
    forwarding: enabled
'''


def ping(guest, nid):
    output = guest.run(f'{CTL} ping {nid} --timeout 20', SMALL)
    assert nid in output, output
    return output


def main():
    programs = {f'/usr/bin/{name}': netns.binary(name) for name in ('ulnetd', 'ulnetctl')}
    with vm.Lab(files={'/etc/router.yaml': ROUTER_YAML}, programs=programs) as lab:
        lab.bridge('br0')
        lab.bridge('br1', mtu=9000)
        client = lab.guest('client', {'br0': '10.1.0.1/24'})
        server = lab.guest('server', {'br1': '10.2.0.1/24'})
        router = lab.guest('router', {'br0': '10.1.0.2/24', 'br1': '10.2.0.2/24'})
        lab.wait_ready()
        daemons = [guest.start(f'exec ulnetd --socket /run/ulnet.sock {options}')
                   for guest, options in ((client, ''), (server, ''), (router, '--config /etc/router.yaml'))]
        for daemon in daemons:
            daemon.wait_for('ulnetd: ready', SMALL)
        client.run(f'{CTL} lnet configure && {CTL} net add --net tcp --if eth0', SMALL)
        server.run(f'{CTL} lnet configure && {CTL} net add --net tcp1 --if eth0', SMALL)
        for guest, nid in ((client, '10.1.0.2@tcp'), (router, '10.1.0.1@tcp'), (server, '10.2.0.2@tcp1'),
                           (router, '10.2.0.1@tcp1')):
            ping(guest, nid)
        client.run(f'{CTL} ping 10.2.0.1@tcp1 --timeout 2', SMALL, status=None)
        client.run(f'{CTL} route add --net tcp1 --gateway 10.1.0.2@tcp', SMALL)
        server.run(f'{CTL} route add --net tcp --gateway 10.2.0.2@tcp1', SMALL)
        for guest, nid in ((client, '10.2.0.1@tcp1'), (server, '10.1.0.1@tcp')):
            guest.until(f'{CTL} ping {nid} --timeout 5', SMALL)
        for daemon in daemons:
            daemon.signal('TERM')
            daemon.wait(SMALL)
    print('vm_tcp: passed')


if __name__ == '__main__':
    main()
