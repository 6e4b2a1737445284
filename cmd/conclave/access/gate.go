package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Gate admits requests to a server. It is safe for concurrent use.
type Gate struct {
	keys     *Keys
	loopback bool

	mu     sync.Mutex
	limits map[string]*limit // limits by the caller's name
}

// limit is the rate limit of one caller.
type limit struct {
	perMinute int
	limiter   *rate.Limiter
}

// New returns the gate of a server that listens on an address, HOST:PORT. Keys may be nil on
// loopback only.
func New(listen string, keys *Keys) (*Gate, error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w; give the address as HOST:PORT, such as 127.0.0.1:8333", listen, err)
	}
	g := &Gate{keys: keys, loopback: isLoopback(host), limits: map[string]*limit{}}
	if !g.loopback && keys == nil {
		return nil, fmt.Errorf("listen on %s: others than this machine can reach it; name a file of keys with --keys (`conclave serve key NAME` makes one), or listen on 127.0.0.1", listen)
	}
	return g, nil
}

// Open reports whether the gate admits callers without a key.
func (g *Gate) Open() bool { return g.keys == nil }

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Handler passes admitted requests on to next, with their Caller.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, refused := g.admit(r)
		if refused != nil {
			refused.write(w, r)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

type callerKey struct{}

// From returns the caller of a request that a Gate has admitted.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// admit returns the caller of a request, or the reason to refuse it.
func (g *Gate) admit(r *http.Request) (Caller, *refusal) {
	if g.loopback && !isLoopback(hostOf(r.Host)) {
		return Caller{}, &refusal{http.StatusForbidden, "forbidden_host", fmt.Sprintf(
			"the request is for the host %q, but this server listens on loopback; use http://127.0.0.1", r.Host)}
	}
	if err := checkOrigin(r); err != nil {
		return Caller{}, &refusal{http.StatusForbidden, "forbidden_origin", err.Error()}
	}
	if g.keys == nil {
		return Caller{}, nil
	}
	key := keyOf(r)
	c, ok := g.keys.Find(key)
	switch {
	case key == "":
		return c, &refusal{http.StatusUnauthorized, "invalid_api_key", "the request has no key; send one of this server's as `Authorization: Bearer KEY`"}
	case !ok:
		return c, &refusal{http.StatusUnauthorized, "invalid_api_key", "the key of the request is not one of this server's; `conclave serve key NAME` makes one for its file of keys"}
	}
	if !g.allow(c) {
		return c, &refusal{http.StatusTooManyRequests, "rate_limit_exceeded", fmt.Sprintf(
			"%s may send %d requests a minute; wait a moment", c.Name, c.PerMinute)}
	}
	return c, nil
}

// hostOf returns the host of HOST or HOST:PORT.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// checkOrigin refuses a request from another site's page. Programs send no Origin header.
func checkOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" && r.Method != http.MethodGet && r.Method != http.MethodHead {
			return errors.New("the request comes from a page of another site")
		}
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return fmt.Errorf("the request comes from a page of %q, not of this server", origin)
	}
	return nil
}

// keyOf returns the key of a request, or "" if it has none.
func keyOf(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

// allow counts a request, and reports whether the caller's limit admits it.
func (g *Gate) allow(c Caller) bool {
	if c.PerMinute == 0 {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.limits[c.Name]
	if l == nil || l.perMinute != c.PerMinute {
		each := time.Minute / time.Duration(c.PerMinute)
		l = &limit{c.PerMinute, rate.NewLimiter(rate.Every(each), c.PerMinute)}
		g.limits[c.Name] = l
	}
	return l.limiter.Allow()
}
