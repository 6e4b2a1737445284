package attack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// networkAttacks are further attacks over the network, including the host's loopback.
func networkAttacks() []attack {
	return []attack{
		{
			name: "tcp_lan", what: "connect to a server on an address of the host that other machines see", setup: setupLAN, proof: socketReached,
			try: func(t target) (string, error) { return dialAddresses("tcp", t.Addresses) },
		},
		{
			name: "mptcp", what: "connect to a server of the host by Multipath TCP, for which Landlock has no rule",
			setup: setupMPTCP, try: connectMPTCP, proof: socketReached,
		},
		{
			name: "tcp_listen", what: "be a server that the host's programs can connect to",
			setup: setupFreePort, try: serve, observe: visit, proof: socketReached,
		},
		{
			name: "packet_socket", what: "make a packet socket", proof: proofClaimed,
			try: func(target) (string, error) { return makeSocket("AF_PACKET", unix.AF_PACKET, unix.SOCK_RAW, 0) },
		},
		{
			name: "odd_sockets", what: "make sockets of families that no agent needs: VSOCK, the kernel's cryptography, CAN, …",
			try: oddSockets, proof: proofClaimed,
		},
		{
			name: "proc_net", what: "find the host's listening sockets in /proc/net/tcp or by netlink",
			setup: setupTCP, try: findListener, proof: proofClaimed,
		},
	}
}

func setupLAN(s *scene) error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return skipAttack("the host's addresses are not known: %v", err)
	}
	for _, a := range addresses {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.IsLinkLocalUnicast() {
			continue
		}
		if s.openListener("tcp", net.JoinHostPort(ip.IP.String(), "0")) == nil {
			return nil
		}
	}
	return skipAttack("this host has only loopback")
}

func setupMPTCP(s *scene) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		return skipAttack("this kernel has no Multipath TCP: %v", err)
	}
	return errors.Join(unix.Close(fd), setupTCP(s))
}

// ipv4Port returns the port of the first listener, which is one of 127.0.0.1.
func ipv4Port(t target) (int, error) {
	address, err := net.ResolveTCPAddr("tcp4", t.Addresses[0])
	if err != nil {
		return 0, err
	}
	return address.Port, nil
}

func connectMPTCP(t target) (string, error) {
	port, err := ipv4Port(t)
	if err != nil {
		return "", err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		return "", fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	return provenUnless(nil)
}

func setupFreePort(s *scene) error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return skipAttack("this host has no IPv4 loopback: %v", err)
	}
	s.target.Addresses = []string{l.Addr().String()}
	return l.Close()
}

// serve waits half a second for a visitor and greets it with the token.
func serve(t target) (string, error) {
	l, err := net.Listen("tcp4", t.Addresses[0])
	if err != nil {
		return "", err
	}
	defer l.Close()
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		return "", err
	}
	c, err := l.Accept()
	if err != nil {
		return "", err
	}
	_, err = c.Write([]byte(t.Token))
	return provenUnless(errors.Join(err, c.Close()))
}

// visit connects to the attacker's server, if there is one.
func visit(s *scene) {
	c, err := net.DialTimeout("tcp4", s.target.Addresses[0], 100*time.Millisecond)
	if err != nil {
		return
	}
	defer c.Close() //nolint:errcheck // nothing was written
	buf := make([]byte, len(s.target.Token))
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	if n, _ := c.Read(buf); string(buf[:n]) == s.target.Token {
		s.arrived.Store(true)
	}
}

func oddSockets(target) (string, error) {
	var ways []func() (string, error)
	for name, s := range map[string][3]int{
		"VSOCK": {unix.AF_VSOCK, unix.SOCK_STREAM, 0}, "ALG": {unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		"CAN": {unix.AF_CAN, unix.SOCK_RAW, 1}, "TIPC": {unix.AF_TIPC, unix.SOCK_SEQPACKET, 0},
		"KCM": {unix.AF_KCM, unix.SOCK_DGRAM, 0}, "XDP": {unix.AF_XDP, unix.SOCK_RAW, 0},
		"RDS": {unix.AF_RDS, unix.SOCK_SEQPACKET, 0}, "SMC": {unix.AF_SMC, unix.SOCK_STREAM, 0},
		"BLUETOOTH": {unix.AF_BLUETOOTH, unix.SOCK_RAW, 1}, "QIPCRTR": {unix.AF_QIPCRTR, unix.SOCK_DGRAM, 0},
	} {
		ways = append(ways, func() (string, error) { return makeSocket(name, s[0], s[1], s[2]) })
	}
	return either(ways...)
}

// findListener looks for the judge's listener.
func findListener(t target) (string, error) {
	port, err := ipv4Port(t)
	if err != nil {
		return "", err
	}
	needle := fmt.Sprintf("0100007F:%04X 00000000:0000 0A", port)
	return either(
		func() (string, error) {
			data, err := os.ReadFile("/proc/net/tcp")
			if err != nil {
				return "", err
			}
			if strings.Contains(string(data), needle) {
				return "it found the listener in /proc/net/tcp", nil
			}
			return "", errors.New("the listener is not in /proc/net/tcp")
		},
		func() (string, error) { return askNetlink(port) })
}

// askNetlink asks the kernel for all listening TCP sockets over IPv4.
func askNetlink(port int) (string, error) {
	const (
		byFamily  = 20    // SOCK_DIAG_BY_FAMILY
		dump      = 0x301 // NLM_F_REQUEST | NLM_F_DUMP
		headerLen = 16
		listening = 1 << 10 // TCP_LISTEN in inet_diag_req_v2.idiag_states
	)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return "", fmt.Errorf("netlink: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	req := make([]byte, headerLen+56)
	order := binary.NativeEndian
	order.PutUint32(req[0:], uint32(len(req)))
	order.PutUint16(req[4:], byFamily)
	order.PutUint16(req[6:], dump)
	req[headerLen], req[headerLen+1] = unix.AF_INET, unix.IPPROTO_TCP
	order.PutUint32(req[headerLen+4:], listening)
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return "", fmt.Errorf("netlink: %w", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return "", fmt.Errorf("netlink: %w", err)
	}
	needle := []byte{byte(port >> 8), byte(port), 0, 0, 127, 0, 0, 1} // ports and source of inet_diag_sockid
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case err != nil:
			return "", fmt.Errorf("netlink: %w", err)
		case strings.Contains(string(buf[:n]), string(needle)):
			return "it found the listener by netlink", nil
		case n < headerLen || order.Uint16(buf[4:]) == unix.NLMSG_DONE || order.Uint16(buf[4:]) == unix.NLMSG_ERROR:
			return "", errors.New("the listener is not in netlink's list")
		}
	}
}
