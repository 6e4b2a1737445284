package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// loopback is the only address that anything here listens on.
const loopback = "127.0.0.1"

const (
	// portPatience is how long the child waits for a port it had before: the
	// sockets of a child that was just killed may outlive its locks a little.
	portPatience = 500 * time.Millisecond
	portPoll     = 20 * time.Millisecond
)

// reservation holds listeners on all the ports of a stack, so that they are
// known, and different, before the servers start. A server that can only
// listen by itself gets its port by take, an instant before it does.
type reservation struct {
	temporal, ui, s3           net.Listener
	history, matching, systems net.Listener
}

// reserve listens on the wanted ports, else on those of the last run, else on
// any free ones. Temporal's inner services always get free ones.
func reserve(ctx context.Context, wanted, recorded Ports) (*reservation, error) {
	r := &reservation{}
	for _, p := range []struct {
		server           string
		wanted, recorded int
		into             *net.Listener
	}{
		{"Temporal", wanted.Temporal, recorded.Temporal, &r.temporal},
		{"the Web UI", wanted.UI, recorded.UI, &r.ui},
		{"the S3 store", wanted.S3, recorded.S3, &r.s3},
		{"Temporal's history service", 0, 0, &r.history},
		{"Temporal's matching service", 0, 0, &r.matching},
		{"Temporal's worker service", 0, 0, &r.systems},
	} {
		listener, err := listen(ctx, p.wanted, p.recorded)
		if err != nil {
			return nil, fmt.Errorf("listen for %s: %w; choose another port", p.server, err)
		}
		*p.into = listener
	}
	return r, nil
}

func listen(ctx context.Context, wanted, recorded int) (net.Listener, error) {
	if wanted != 0 || recorded == 0 {
		return listenOn(ctx, wanted)
	}
	for deadline := time.Now().Add(portPatience); ; {
		listener, err := listenOn(ctx, recorded)
		if err == nil {
			return listener, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return listenOn(ctx, 0)
		}
		if err := pause(ctx, portPoll); err != nil {
			return nil, err
		}
	}
}

func listenOn(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp4", net.JoinHostPort(loopback, strconv.Itoa(port)))
}

// ports are those that clients use.
func (r *reservation) ports() Ports {
	return Ports{Temporal: port(r.temporal), UI: port(r.ui), S3: port(r.s3)}
}

// port is the number that a listener of reserve listens on.
func port(l net.Listener) int {
	return l.Addr().(*net.TCPAddr).Port
}

// take frees a reserved port for a server that is about to listen on it.
func take(l net.Listener) error {
	if err := l.Close(); err != nil {
		return fmt.Errorf("hand over the port %s: %w", l.Addr(), err)
	}
	return nil
}
