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
#: Networks that ``local`` allows.
_LOCAL: tuple[tuple[_Network, str], ...] = tuple(
    (ipaddress.ip_network(network), name)
    for network, name in (
        ("127.0.0.0/8", "an address of this machine"),
        ("::1/128", "an address of this machine"),
        ("10.0.0.0/8", "a private address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("fc00::/7", "a private address"),
    )
)
_NEVER: tuple[tuple[_Network, str], ...] = tuple(
    (ipaddress.ip_network(network), name)
    for network, name in (
        ("0.0.0.0/8", "an address of this network"),
        ("100.64.0.0/10", "an address behind a carrier"),
        ("169.254.0.0/16", "a link-local address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a relay to IPv6"),
        ("198.18.0.0/15", "an address for measurements"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
        ("::/128", "no address"),
        ("::ffff:0:0/96", "an IPv4 address in disguise"),
        ("::ffff:0:0:0/96", "an IPv4 address in disguise"),
        ("::/96", "an IPv4 address in disguise"),
        ("64:ff9b::/96", "an IPv4 address in disguise"),
        ("64:ff9b:1::/48", "an IPv4 address in disguise"),
        ("2001::/23", "a tunnel or a reserved address"),
        ("2001:db8::/32", "an address for documentation"),
        ("2002::/16", "an IPv4 address in disguise"),
        ("3fff::/20", "an address for documentation"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a site-local address"),
        ("ff00::/8", "a multicast address"),
    )
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
