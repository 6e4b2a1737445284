package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"conclave/worker/cluster"
)

// Caller is the holder of a key.
type Caller struct {
	Name      string   // empty without keys
	Teams     []string // teams that the caller may ask; nil for all
	PerMinute int      // requests; 0 for no limit
	USDPerDay float64  // 0 for no limit
}

// MayAsk reports whether the caller may ask a team.
func (c Caller) MayAsk(team string) bool { return c.Teams == nil || slices.Contains(c.Teams, team) }

// format is the form of a line, for error messages.
const format = "name:sha256-of-key[:team,team[:requests_per_minute[:usd_per_day]]]"

// parseLines reads the lines of a file. Empty lines and lines that begin with # are comments. The
// error names the first faulty line; the callers are those of the other lines.
func parseLines(file, data string) (callers map[string]Caller, err error) {
	callers = map[string]Caller{}
	lines := map[string]int{} // number of the line, by name and by key
	faulty := 0
	for i, line := range strings.Split(data, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, key, wrong := parseLine(line)
		switch {
		case wrong != nil:
			wrong = fmt.Errorf("%w; a line is %s", wrong, format)
		case lines[key] > 0:
			wrong = fmt.Errorf("the key is that of line %d; give every caller its own", lines[key])
		case lines[c.Name] > 0:
			wrong = fmt.Errorf("the name %s is that of line %d; sessions and budgets belong to a name", c.Name, lines[c.Name])
		default:
			callers[key], lines[key], lines[c.Name] = c, i+1, i+1
			continue
		}
		if faulty++; err == nil {
			err = fmt.Errorf("%s:%d: %w", file, i+1, wrong)
		}
	}
	switch {
	case faulty > 1:
		err = fmt.Errorf("%w (%d lines are faulty)", err, faulty)
	case err == nil && len(callers) == 0:
		err = fmt.Errorf("%s has no key; `conclave serve key NAME >> %s` makes one", file, file)
	}
	return callers, err
}

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// CheckName refuses a name that a line of the file cannot contain.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("the name %q is not made of 1 to 64 letters, digits, dots, dashes and underscores, beginning with a letter or a digit", name)
	}
	return nil
}

func parseLine(line string) (c Caller, key string, err error) {
	const most = 5
	fields := strings.Split(line, ":")
	if len(fields) < 2 || len(fields) > most {
		return c, "", fmt.Errorf("the line has %d of 2 to %d fields", len(fields), most)
	}
	c.Name, key = fields[0], strings.ToLower(fields[1])
	if err := CheckName(c.Name); err != nil {
		return c, "", err
	}
	if !hashForm.MatchString(key) {
		return c, "", fmt.Errorf("the second field of %s is not a SHA-256 hash of 64 hexadecimal digits; the key itself must not be in the file", c.Name)
	}
	fields = append(fields, make([]string, most-len(fields))...)
	if fields[2] != "" {
		c.Teams = strings.Split(fields[2], ",")
	}
	if fields[3] != "" {
		if c.PerMinute, err = strconv.Atoi(fields[3]); err != nil || c.PerMinute < 1 {
			return c, "", fmt.Errorf("requests_per_minute of %s is %q, not a whole number above 0", c.Name, fields[3])
		}
	}
	if fields[4] != "" {
		if c.USDPerDay, err = strconv.ParseFloat(fields[4], 64); err != nil || !(c.USDPerDay > 0) || math.IsInf(c.USDPerDay, 0) {
			return c, "", fmt.Errorf("usd_per_day of %s is %q, not a number above 0", c.Name, fields[4])
		}
	}
	return c, key, nil
}

// NewKey returns a key and the line of a file that admits it.
func NewKey(c Caller) (key, line string) {
	key = "ck-" + strings.ToLower(rand.Text()+rand.Text())
	fields := []string{c.Name, hashKey(key), strings.Join(c.Teams, ","), "", ""}
	if c.PerMinute > 0 {
		fields[3] = strconv.Itoa(c.PerMinute)
	}
	if c.USDPerDay > 0 {
		fields[4] = strconv.FormatFloat(c.USDPerDay, 'f', -1, 64)
	}
	return key, strings.TrimRight(strings.Join(fields, ":"), ":")
}

// Keys are the callers listed in a file, which is read again for every lookup, because a rotation
// may keep its size and its time. A changed file admits the keys of its valid lines only: a key whose line was removed is refused at once, and a
// mistake in one line locks out no other caller. A file that cannot be read admits nobody.
type Keys struct {
	// Faulty receives a fault of the changed file when a request finds it, once; nil ignores it.
	Faulty func(error)

	file string

	mu      sync.Mutex
	content string            // the line that was read last; empty after a failure
	fault   string            // fault that was returned last; empty without one
	callers map[string]Caller // callers by the hash of the key, in hex
}

// maxKeysFile is the maximum size of a file of keys, in bytes.
const maxKeysFile = 1 << 20

// LoadKeys reads a file of keys. It refuses a file with a fault, and one without a key.
func LoadKeys(file string) (*Keys, error) {
	k := &Keys{file: file}
	if err := k.refresh(); err != nil {
		return nil, err
	}
	return k, nil
}

// Callers returns the callers, sorted by name.
func (k *Keys) Callers() []Caller {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.callers), func(a, b Caller) int { return strings.Compare(a.Name, b.Name) })
}

// Find returns the caller with a key.
func (k *Keys) Find(key string) (Caller, bool) {
	if err := k.refresh(); err != nil && k.Faulty != nil {
		k.Faulty(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.callers[hashKey(key)]
	return c, ok
}

// hashKey returns the hash that the file stores for a key. The time of a lookup reveals nothing
// about the key.
func hashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// refresh reads the file, and parses it if it has changed. It returns a fault once.
func (k *Keys) refresh() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	content, err := k.readFile()
	switch {
	case err != nil:
		k.callers = nil
	case content == k.content && k.callers != nil:
		return nil
	default:
		k.callers, err = parseLines(k.file, content)
	}
	previous := k.fault
	k.content, k.fault = content, ""
	if err != nil {
		k.fault = err.Error()
	}
	if k.fault == previous {
		return nil
	}
	return err
}

func (k *Keys) readFile() (string, error) {
	remedy := fmt.Sprintf("name a file that this user can read; `conclave serve key NAME >> %s` makes one", k.file)
	info, err := os.Stat(k.file)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the keys: %w; %s", err, remedy)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("read the keys: %s is not a regular file; %s", k.file, remedy)
	case info.Size() > maxKeysFile:
		return "", fmt.Errorf("read the keys: %s has %d bytes, at most %d are read", k.file, info.Size(), maxKeysFile)
	}
	content, err := os.ReadFile(k.file)
	if err != nil {
		return "", fmt.Errorf("read the keys: %w; %s", err, remedy)
	}
	return string(content), nil
}

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

// New returns the gate of a server that listens on an address, HOST:PORT. Keys may be nil on loopback only.
func New(listen string, keys *Keys) (*Gate, error) {
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, fmt.Errorf("listen on %q: %w; give the address as HOST:PORT, such as 127.0.0.1:8333", listen, err)
	}
	g := &Gate{keys: keys, loopback: cluster.IsLoopback(listen), limits: map[string]*limit{}}
	if !g.loopback && keys == nil {
		return nil, fmt.Errorf("listen on %s: others than this machine can reach it; name a file of keys with --keys (`conclave serve key NAME` makes one), or listen on 127.0.0.1", listen)
	}
	return g, nil
}

// Open reports whether the gate admits callers without a key.
func (g *Gate) Open() bool { return g.keys == nil }

// Handler passes admitted requests on to next, with their Caller.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, refused := g.admitRequest(r)
		if refused != nil {
			refused.writeTo(w, r)
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

func (g *Gate) admitRequest(r *http.Request) (Caller, *refusal) {
	if g.loopback && !cluster.IsLoopback(r.Host) {
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
		return c, &refusal{http.StatusUnauthorized, "invalid_api_key", "the request has no key; send one of this server's as `Authorization: Bearer KEY`, or as `x-api-key`"}
	case !ok:
		return c, &refusal{http.StatusUnauthorized, "invalid_api_key", "the key of the request is not one of this server's; `conclave serve key NAME` makes one for its file of keys"}
	}
	if !g.allowsRequest(c) {
		return c, &refusal{http.StatusTooManyRequests, "rate_limit_exceeded", fmt.Sprintf(
			"%s may send %d requests a minute; wait a moment", c.Name, c.PerMinute)}
	}
	return c, nil
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
		key = r.Header.Get("X-Api-Key") // of the Messages API
	}
	return strings.TrimSpace(key)
}

// allowsRequest counts a request, and reports whether the caller's limit admits it.
func (g *Gate) allowsRequest(c Caller) bool {
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
