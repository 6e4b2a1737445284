package tools

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

func list(t *testing.T, entries ...string) Destinations {
	t.Helper()
	l, err := ParseDestinations(entries)
	require.NoError(t, err)
	return l
}

// serving starts a proxy whose names resolve to addrs, and returns its address.
func serving(t *testing.T, p *Proxy, addrs ...string) string {
	t.Helper()
	p.lookup = func(_ context.Context, name string) (found []netip.Addr, err error) {
		for _, a := range addrs {
			found = append(found, netip.MustParseAddr(a))
		}
		if found == nil {
			err = errors.New("no such host")
		}
		return found, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.startServing(l)
	return l.Addr().String()
}

// echo is a server that returns what it reads until the client's end, and then says goodbye.
func echo(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
				_, _ = io.WriteString(conn, "goodbye")
			}()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// ask sends a request line, and returns the status and, of a refusal, the text.
func ask(t *testing.T, proxy, line string) (conn *net.TCPConn, status int, body string) {
	t.Helper()
	opened, err := net.Dial("tcp", proxy)
	require.NoError(t, err)
	t.Cleanup(func() { _ = opened.Close() })
	require.NoError(t, opened.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(opened, line+" HTTP/1.1\r\nHost: code.example:443\r\n\r\n")
	require.NoError(t, err)
	method, _, _ := strings.Cut(line, " ")
	response, err := http.ReadResponse(bufio.NewReader(opened), &http.Request{Method: method})
	require.NoError(t, err)
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		body = string(text)
	}
	return opened.(*net.TCPConn), response.StatusCode, body
}

func TestProxy_connectsToTheList(t *testing.T) {
	t.Parallel()
	to := echo(t)
	p := newProxy(list(t, to.String()))
	proxy := serving(t, p)
	conn, status, _ := ask(t, proxy, "CONNECT "+to.String())
	require.Equal(t, http.StatusOK, status)
	_, err := io.WriteString(conn, "hello ")
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	said, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "hello goodbye", string(said), "the ends of both directions are passed on")
	require.NoError(t, p.Close())
	_, err = net.Dial("tcp", proxy)
	require.Error(t, err, "closed")
}

func TestProxy_refuses(t *testing.T) {
	t.Parallel()
	p := newProxy(list(t, "code.example:443", "files.example:443", "192.168.1.9:5000"))
	dialled := make(chan netip.AddrPort, 10)
	p.dial = func(_ context.Context, to netip.AddrPort) (net.Conn, error) {
		dialled <- to
		return nil, errors.New("nobody answers")
	}
	proxy := serving(t, p, "127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1")
	for line, want := range map[string]struct {
		status int
		says   string
	}{
		"CONNECT evil.example:443":              {http.StatusForbidden, "evil.example:443 is not on the operator's list; commands can reach code.example:443, files.example:443"},
		"CONNECT code.example:80":               {http.StatusForbidden, "code.example:80 is not on"},
		"CONNECT 127.0.0.1:443":                 {http.StatusForbidden, "not on the operator's list"},
		"CONNECT code.example.evil.example:443": {http.StatusForbidden, "not on the operator's list"},
		"CONNECT [::ffff:192.168.1.9]:5001":     {http.StatusForbidden, "192.168.1.9:5001 is not on"},
		"CONNECT code.example":                  {http.StatusBadRequest, ""},
		"CONNECT 0x7f.1:443":                    {http.StatusBadRequest, "not one in its usual form"},
		"GET http://code.example:443/":          {http.StatusMethodNotAllowed, "CONNECT only"},
		"CONNECT code.example:443":              {http.StatusForbidden, "its address is local, private or reserved"},
		"CONNECT [::ffff:192.168.1.9]:5000":     {http.StatusBadGateway, "nobody answers"},
	} {
		_, status, body := ask(t, proxy, line)
		require.Equal(t, want.status, status, "%s: %s", line, body)
		require.Contains(t, body, want.says, line)
	}
	require.NoError(t, p.Close())
	close(dialled)
	require.Equal(t, netip.MustParseAddrPort("192.168.1.9:5000"), <-dialled, "an address on the list, in any spelling")
	require.Empty(t, dialled, "no other address was dialled")
}

// The proxy resolves a name once, and dials the admitted addresses of that answer in order.
func TestProxy_dialsTheJudgedAddresses(t *testing.T) {
	t.Parallel()
	to := echo(t)
	p := newProxy(list(t, "Code.Example.:443"))
	var dialled []netip.AddrPort
	p.dial = func(_ context.Context, addr netip.AddrPort) (net.Conn, error) {
		dialled = append(dialled, addr)
		if len(dialled) == 1 {
			return nil, errors.New("nobody answers")
		}
		return net.Dial("tcp", to.String())
	}
	proxy := serving(t, p, "10.1.1.1", "151.101.0.223", "2a04:4e42::223", "127.0.0.1")
	_, status, body := ask(t, proxy, "CONNECT code.example:443")
	require.Equal(t, http.StatusOK, status, body)
	require.NoError(t, p.Close())
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("151.101.0.223:443"), netip.MustParseAddrPort("[2a04:4e42::223]:443")}, dialled)
}

func TestProxy_endsTunnelsWhenItIsClosed(t *testing.T) {
	t.Parallel()
	to := echo(t)
	p := newProxy(list(t, to.String()))
	conn, status, _ := ask(t, serving(t, p), "CONNECT "+to.String())
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, p.Close())
	_, err := io.ReadAll(conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection was closed")
}

func TestProxy_boundsItsTunnels(t *testing.T) {
	t.Parallel()
	to := echo(t)
	p := newProxy(list(t, to.String()))
	proxy := serving(t, p)
	for range maxTunnels {
		_, status, _ := ask(t, proxy, "CONNECT "+to.String())
		require.Equal(t, http.StatusOK, status)
	}
	_, status, body := ask(t, proxy, "CONNECT "+to.String())
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "at most 128")
	require.NoError(t, p.Close())
}

func TestProxy_unknownName(t *testing.T) {
	t.Parallel()
	p := newProxy(list(t, "gone.example:443"))
	_, status, body := ask(t, serving(t, p), "CONNECT gone.example:443")
	require.Equal(t, http.StatusBadGateway, status)
	require.Contains(t, body, "cannot connect to gone.example:443: resolve its name: no such host")
	require.NoError(t, p.Close())
}

func TestParseList_refusals(t *testing.T) {
	t.Parallel()
	for entry, says := range map[string]string{
		"code.example":         "the port is missing; give it as HOST:PORT, such as code.example:443",
		"https://code.example": "the port is not a number",
		"*.code.example:443":   "neither an address nor a DNS name",
		"code.example:0443":    "the port is not a number from 1 to 65535",
		"localhost:8080":       "give its address, 127.0.0.1:8080",
		"LOCALHOST.:8080":      "give its address, 127.0.0.1:8080",
		"db.localhost:5432":    "give its address",
		"[fe80::1%eth0]:443":   "IPv6 address without a zone",
		"2130706433:80":        "looks like an address",
		"":                     "the port is missing",
	} {
		_, err := ParseDestinations([]string{"a.example:1", entry})
		require.ErrorContains(t, err, says, entry)
	}
	require.Equal(t, "a.example:1, [::1]:2, 1.2.3.4:3", list(t, "A.example.:1", "[0::1]:2", "[::ffff:1.2.3.4]:3").String())
}

// nameServer gives the same answer to every question for an IPv4 address, and records the names.
func nameServer(t *testing.T, answer [4]byte) (address string, asked <-chan string) {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	names := make(chan string, 10)
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil {
				continue
			}
			q := m.Questions[0]
			names <- q.Name.String()
			reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
			if q.Type == dnsmessage.TypeA {
				reply.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: answer}}}
			}
			packet, _ := reply.Pack()
			_, _ = socket.WriteTo(packet, from)
		}
	}()
	return socket.LocalAddr().String(), names
}

func TestLookup_resolvesAbsoluteNames(t *testing.T) {
	t.Parallel()
	server, asked := nameServer(t, [4]byte{151, 101, 0, 223})
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server)
	}}
	found, err := lookupBy(r)(t.Context(), "code")
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("151.101.0.223")}, found)
	require.Equal(t, []string{"code.", "code."}, []string{<-asked, <-asked}, "one question for each family, without search domains")
	require.Empty(t, asked)
}
