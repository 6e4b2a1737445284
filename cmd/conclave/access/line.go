package access

import (
	"crypto/rand"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// parse reads the lines of a file. Empty lines and lines that begin with # are comments. The
// error names the first faulty line; the callers are those of the other lines.
func parse(file, data string) (callers map[string]Caller, err error) {
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
	fields := []string{c.Name, hash(key), strings.Join(c.Teams, ","), "", ""}
	if c.PerMinute > 0 {
		fields[3] = strconv.Itoa(c.PerMinute)
	}
	if c.USDPerDay > 0 {
		fields[4] = strconv.FormatFloat(c.USDPerDay, 'f', -1, 64)
	}
	return key, strings.TrimRight(strings.Join(fields, ":"), ":")
}
