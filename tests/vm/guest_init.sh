#!/bin/sh
# The first process of a guest: mounts, modules, and the device of the command channel for guest_loop.sh.
export PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mkdir -p /var/run  # DPDK's; it loads drivers only if nobody else can write to their folder
chmod 755 /
while read -r module; do
  insmod "$module" || echo "init: insmod $module failed"
done </etc/modules.load
ip link set lo up

device=
while [ -z "$device" ]; do
  for port in /sys/class/virtio-ports/*; do
    if [ "$(cat "$port/name" 2>/dev/null)" = channel ]; then device=/dev/${port##*/}; fi
  done
  [ -n "$device" ] || sleep 0.02
done
exec 3<>"$device" || echo "init: cannot open $device"

echo "init: ready"
exec /bin/sh /guest_loop.sh /run/vm
