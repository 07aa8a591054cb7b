#!/usr/bin/env python3
"""tools/examples/echo: two threads that turn their own workers, spinning and sleeping, with payloads that are copied
and others. Wrong words get a sentence, and an answer that never comes does, too.
"""
import netns


def main():
    with netns.Topology() as topology:
        client, server = topology.node('c'), topology.node('s')
        topology.link(client, '10.0.0.1/24', server, '10.0.0.2/24')
        echo, ours, theirs = netns.binary('echo'), '10.0.0.1@tcp', '10.0.0.2@tcp'
        for flags in ([], ['--sleep']):
            serving = server.start([echo, *flags, 'serve', theirs])
            serving.wait_for('^serving', 60)
            for size in ('1', '64', '5000', '65536'):
                output = client.run([echo, *flags, 'ping', ours, theirs, '300', size], 120)
                assert f'300 pings of {size} bytes: mean ' in output, output
            serving.stop()
            assert 'echo: ' not in serving.output(), serving.output()
        output = client.run([echo, 'ping', ours, theirs, '1'], 120, status=1)
        assert 'echo: ' in output, output
        for words, wanted in ((['ping', ours], 'usage: echo'), (['ping', ours, theirs, '0'], 'usage: echo'),
                              (['ping', ours, theirs, '1', '65537'], 'usage: echo'), (['--fast'], 'usage: echo')):
            output = client.run([echo, *words], 60, status=2)
            assert wanted in output, output
        output = client.run([echo, 'ping', ours, 'nowhere', '1'], 60, status=1)
        assert "'nowhere' is no NID" in output, output
        output = client.run([echo, 'ping', '10.7.7.7@tcp', theirs, '1'], 60, status=1)
        assert 'echo: cannot start 10.7.7.7@tcp: ' in output, output


if __name__ == '__main__':
    main()
