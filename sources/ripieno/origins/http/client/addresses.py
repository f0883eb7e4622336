"""The table of addresses that a tool may not connect to.

``ipaddress`` calls translated addresses, relays, multicast and one cloud's metadata service global (measured). So IPv4
is public unless listed here, and IPv6 only where allocated (RFC 4291) and not listed here.
"""

import ipaddress
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

#: The credential services of clouds: never reached, regardless of settings.
_METADATA = frozenset(
    ipaddress.ip_address(one)
    for one in (
        *("169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192"),
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe"),
    )
)


def _networks(*named: tuple[str, str]) -> tuple[tuple[_Network, str], ...]:
    return tuple((ipaddress.ip_network(network), name) for name, networks in named for network in networks.split())


#: Networks that ``local`` allows.
_LOCAL = _networks(
    ("an address of this machine", "127.0.0.0/8 ::1/128"),
    ("a private address", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7"),
)
_NEVER = _networks(
    ("no address", "::/128"),
    ("an address of this network", "0.0.0.0/8"),
    ("an address behind a carrier", "100.64.0.0/10"),
    ("a link-local address", "169.254.0.0/16 fe80::/10"),
    ("a site-local address", "fec0::/10"),
    ("a reserved address", "192.0.0.0/24 240.0.0.0/4"),
    ("an address for documentation", "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20"),
    ("an address for measurements", "198.18.0.0/15"),
    ("a multicast address", "224.0.0.0/4 ff00::/8"),
    ("a relay to IPv6", "192.88.99.0/24"),
    ("an IPv4 address in disguise", "::ffff:0:0/96 ::ffff:0:0:0/96 ::/96 64:ff9b::/96 64:ff9b:1::/48 2002::/16"),
    ("a tunnel or a reserved address", "2001::/23"),
)
#: The allocated part of IPv6.
_ALLOCATED = ipaddress.IPv6Network("2000::/3")


def refuse_address(address: Address, *, local: bool) -> str | None:
    """The reason why an address is refused, to follow "it is"; None if it is allowed. ``local`` allows private ones."""
    if address in _METADATA:
        return "an address at which a cloud gives credentials"
    for network, name in _LOCAL:
        if address in network:
            return None if local else name
    for network, name in _NEVER:
        if address in network:
            return name
    if isinstance(address, ipaddress.IPv6Address):
        if address not in _ALLOCATED:
            return "a reserved address"
        if (int(address) >> 32) & 0xFDFFFFFF == 0x5EFE:
            # ISATAP: the last 32 bits are an IPv4 address.
            return "an IPv4 address in disguise"
    return None


def is_local(address: Address) -> bool:
    """Whether it is reachable only with ``local``."""
    return refuse_address(address, local=False) is not None and refuse_address(address, local=True) is None
