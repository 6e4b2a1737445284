package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Caller is the holder of a key.
type Caller struct {
	Name      string   // empty without keys
	Teams     []string // that it may ask; nil for all
	PerMinute int      // requests; 0 for no limit
	USDPerDay float64  // 0 for no limit
}

// MayAsk reports whether the caller may ask a team.
func (c Caller) MayAsk(team string) bool { return c.Teams == nil || slices.Contains(c.Teams, team) }

// Keys are the callers listed in a file, which is read again when it changes.
type Keys struct {
	file string

	mu      sync.Mutex
	read    stamp
	callers map[string]Caller // by the hash of the key, in hex
}

// stamp identifies a version of a file.
type stamp struct {
	changed time.Time
	size    int64
}

// maxKeysFile is the maximum size of a file of keys, in bytes.
const maxKeysFile = 1 << 20

// format is the form of a line, for error messages.
const format = "name:sha256-of-key[:team,team[:requests_per_minute[:usd_per_day]]]"

// LoadKeys reads a file of keys.
func LoadKeys(file string) (*Keys, error) {
	k := &Keys{file: file}
	if err := k.refresh(); err != nil {
		return nil, err
	}
	return k, nil
}

// Names returns the names of the callers, sorted.
func (k *Keys) Names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var names []string
	for c := range maps.Values(k.callers) {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

// Find returns the caller with a key. If the changed file is invalid, the previous
// callers remain admitted; if the file is missing or unreadable, nobody is.
func (k *Keys) Find(key string) (Caller, bool) {
	err := k.refresh()
	k.mu.Lock()
	defer k.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return Caller{}, false
	}
	c, ok := k.callers[hash(key)]
	return c, ok
}

// hash returns the hash that the file stores for a key. The time of a lookup reveals nothing
// about the key.
func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// refresh reads the file if it has changed.
func (k *Keys) refresh() error {
	info, err := os.Stat(k.file)
	if err != nil {
		return fmt.Errorf("read the keys: %w; `conclave serve key NAME >> %s` makes the first one", err, k.file)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := stamp{info.ModTime(), info.Size()}
	if now == k.read {
		return nil
	}
	if info.Size() > maxKeysFile {
		return fmt.Errorf("read the keys: %s has %d bytes, at most %d are read", k.file, info.Size(), maxKeysFile)
	}
	data, err := os.ReadFile(k.file)
	if err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	callers, err := parse(k.file, string(data))
	if err != nil {
		return err
	}
	k.callers, k.read = callers, now
	return nil
}

// parse reads the lines of a file. Empty lines and lines that begin with # are comments.
func parse(file, data string) (map[string]Caller, error) {
	callers, lines := map[string]Caller{}, map[string]int{}
	for i, line := range strings.Split(data, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, key, err := parseLine(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s:%d: %w; a line is %s", file, i+1, err, format)
		case lines[key] > 0:
			return nil, fmt.Errorf("%s:%d: the key is that of line %d; give every caller its own", file, i+1, lines[key])
		case lines[c.Name] > 0:
			return nil, fmt.Errorf("%s:%d: the name %s is that of line %d; sessions and budgets belong to a name", file, i+1, c.Name, lines[c.Name])
		}
		callers[key], lines[key], lines[c.Name] = c, i+1, i+1
	}
	if len(callers) == 0 {
		return nil, fmt.Errorf("%s has no key; `conclave serve key NAME >> %s` makes one", file, file)
	}
	return callers, nil
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
		return c, "", fmt.Errorf("the line has %d fields", len(fields))
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
			return c, "", fmt.Errorf("the requests a minute of %s are %q, not a whole number above 0", c.Name, fields[3])
		}
	}
	if fields[4] != "" {
		if c.USDPerDay, err = strconv.ParseFloat(fields[4], 64); err != nil || !(c.USDPerDay > 0) || math.IsInf(c.USDPerDay, 0) {
			return c, "", fmt.Errorf("the dollars a day of %s are %q, not a number above 0", c.Name, fields[4])
		}
	}
	return c, key, nil
}

// NewKey returns a key and the line of a file that admits it.
func NewKey(c Caller) (key, line string) {
	key = "ck-" + strings.ToLower(rand.Text()+rand.Text())
	fields := []string{c.Name, hash(key), strings.Join(c.Teams, ","), "", ""}
	if c.PerMinute > 0 {
		fields[3] = strconv.Itoa(c.PerMinute)
	}
	if c.USDPerDay > 0 {
		fields[4] = strconv.FormatFloat(c.USDPerDay, 'f', -1, 64)
	}
	return key, strings.TrimRight(strings.Join(fields, ":"), ":")
}
