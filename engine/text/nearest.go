package text

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const (
	maxMisspelt  = 100 // bytes of a word that Nearest compares at all
	minContained = 3   // letters of a word that counts as a part of another
)

// Nearest returns the first of the choices nearest to word, if at most a third of the word's
// letters differ. Case, dashes, underscores and spaces do not count; if a word is part of a
// choice, or the reverse, it differs by one letter. If no choice is that near, Nearest
// returns the only choice with the same first part: system_message for system_prompt.
func Nearest(word string, choices []string) (nearest string, ok bool) {
	folded := Fold(word)
	if len(folded) > maxMisspelt {
		return "", false
	}
	best := max(1, len(folded)/3) + 1
	for _, choice := range choices {
		if d := spellingDistance(folded, Fold(choice)); d < best {
			nearest, best, ok = choice, d, true
		}
	}
	if !ok {
		return sharingFirstPart(word, choices)
	}
	return nearest, ok
}

// Misspells reports whether a word differs from another in one letter at most.
func Misspells(word, other string) bool { return editDistance(Fold(word), Fold(other)) <= 1 }

// sharingFirstPart returns the choice that begins with the first part of a word, if the word has
// several parts and there is exactly one such choice.
func sharingFirstPart(word string, choices []string) (choice string, ok bool) {
	const separators = "_-"
	i := strings.IndexAny(word, separators)
	if i < minContained {
		return "", false
	}
	for _, c := range choices {
		j := strings.IndexAny(c, separators)
		if j < 0 || !strings.EqualFold(c[:j], word[:i]) {
			continue
		}
		if ok {
			return "", false
		}
		choice, ok = c, true
	}
	return choice, ok
}

// Fold returns s in lower case without dashes, underscores and spaces.
func Fold(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}

func spellingDistance(a, b string) int {
	d := editDistance(a, b)
	if min(len(a), len(b)) >= minContained && (strings.Contains(a, b) || strings.Contains(b, a)) {
		d = min(d, 1)
	}
	return d
}

// editDistance returns the number of bytes that must be inserted, deleted, replaced or swapped
// with their neighbour to turn a into b.
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			row[j+1] = min(last[j]+change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// secretValue matches the forms of API keys and tokens.
var secretValue = regexp.MustCompile(`^sk[-_].{6}|^(gsk|hf|r8|gh[opsu]|github_pat)_[A-Za-z0-9_]{10}|^(xai|pplx|nvapi|glpat)-[A-Za-z0-9_]{20}` +
	`|^xox[a-z]-.{10}|^(?i:bearer|basic) +\S|^A[KS]IA[0-9A-Z]{12}|^AIza.{20}|^eyJ[A-Za-z0-9_-]{10}|-----BEGIN `)

// LooksSecret reports whether a value has the form of a key or token. Messages
// never repeat such a value.
func LooksSecret(value string) bool { return secretValue.MatchString(strings.TrimSpace(value)) }

// SecretKey reports whether the value of a key in a document could only be a secret.
func SecretKey(key string) bool {
	folded := Fold(key)
	for _, name := range []string{"apikey", "apitoken", "accesstoken", "authtoken", "bearertoken", "authorization", "secretkey", "clientsecret"} {
		if strings.HasSuffix(folded, name) {
			return true
		}
	}
	return slices.Contains([]string{"key", "token", "secret", "password", "credentials"}, folded)
}

// UserinfoOf returns the user and the password of an address, separately and together: as
// written, decoded, and as encoded in a request's header. It returns nil for other texts.
func UserinfoOf(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return nil
	}
	password, _ := u.User.Password()
	pair := u.User.Username() + ":" + password
	_, authority, _ := strings.Cut(address, "//")
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		authority = authority[:end]
	}
	written := authority[:max(0, strings.LastIndex(authority, "@"))]
	user, secret, _ := strings.Cut(written, ":")
	return []string{u.User.Username(), password, pair, base64.StdEncoding.EncodeToString([]byte(pair)), written, user, secret}
}

// minVariable is the length, in bytes, from which the value of a secret variable is redacted.
// Ordinary text contains shorter values.
const minVariable = 8

// SecretsOfEnvironment returns the values of secret variables among NAME=VALUE pairs.
func SecretsOfEnvironment(environ []string) []string {
	var secrets []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if SecretVariable(name) && len(value) >= minVariable {
			secrets = append(secrets, value)
		}
	}
	return secrets
}

// SecretVariable reports whether a variable's name ends like those that configurations
// require for keys, or like those of the AWS SDK, the Temporal CLI or MCP servers.
func SecretVariable(name string) bool {
	return slices.ContainsFunc([]string{"_KEY", "_TOKEN", "_SECRET", "PASSWORD", "_KEY_DATA"}, func(ending string) bool { return strings.HasSuffix("_"+strings.ToUpper(name), ending) })
}

// RedactJSON applies clean to the string values of a JSON document that conclave
// wrote. The result is a document with the same keys and numbers, even if a secret
// contains JSON syntax.
func RedactJSON(document []byte, clean func([]byte) []byte) ([]byte, error) {
	return cleaner(clean).cleanDocument(document, false)
}

type cleaner func([]byte) []byte

// cleanDocument cleans the string values of a document. With whole, it also cleans keys and
// numbers, because a model may write a secret there.
func (c cleaner) cleanDocument(document []byte, whole bool) ([]byte, error) {
	between := func(data []byte) []byte { return data }
	if whole {
		between = c
	}
	var clean bytes.Buffer
	for rest := document; ; {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			clean.Write(between(rest))
			return clean.Bytes(), nil
		}
		end := start + stringLength(rest[start:])
		clean.Write(between(rest[:start]))
		literal := rest[start:end]
		rest = rest[end:]
		if key := bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":")); whole || !key {
			var err error
			if literal, err = c.cleanLiteral(literal); err != nil {
				return nil, err
			}
		}
		clean.Write(literal)
	}
}

func stringLength(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// cleanLiteral cleans one JSON string. If the string holds a document, such as the arguments of a
// tool call, it is cleaned as a document, since its escapes may be unusual.
func (c cleaner) cleanLiteral(quoted []byte) ([]byte, error) {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, fmt.Errorf("redact a string: %w", err)
	}
	clean := []byte(s)
	if isDocument(clean) {
		var err error
		if clean, err = c.cleanDocument(clean, true); err != nil {
			return nil, err
		}
	} else {
		clean = c(clean)
	}
	if string(clean) == s {
		return quoted, nil
	}
	return json.Marshal(string(clean))
}

// isDocument reports whether data is a JSON document that can contain strings.
func isDocument(data []byte) bool {
	start := bytes.TrimLeft(data, " \t\r\n")
	return len(start) > 0 && bytes.IndexByte([]byte(`{["`), start[0]) >= 0 && json.Valid(data)
}
