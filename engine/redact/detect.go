package redact

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/text"
)

// secretValue matches the forms of API keys and tokens.
var secretValue = regexp.MustCompile(`^sk[-_].{6}|^(gsk|hf|r8|gh[opsu]|github_pat)_[A-Za-z0-9_]{10}|^(xai|pplx|nvapi|glpat)-[A-Za-z0-9_]{20}` +
	`|^xox[a-z]-.{10}|^(?i:bearer|basic) +\S|^A[KS]IA[0-9A-Z]{12}|^AIza.{20}|^eyJ[A-Za-z0-9_-]{10}|-----BEGIN `)

// LooksSecret reports whether a value has the form of a key or token. Messages
// never repeat such a value.
func LooksSecret(value string) bool { return secretValue.MatchString(strings.TrimSpace(value)) }

// SecretKey reports whether the value of a key in a document could only be a secret.
func SecretKey(key string) bool {
	folded := text.Fold(key)
	for _, name := range []string{"apikey", "apitoken", "accesstoken", "authtoken", "bearertoken", "authorization", "secretkey", "clientsecret"} {
		if strings.HasSuffix(folded, name) {
			return true
		}
	}
	return slices.Contains([]string{"key", "token", "secret", "password", "credentials"}, folded)
}

// Userinfo returns the user and the password of an address, separately and together: as
// written, decoded, and as encoded in a request's header. It returns nil for other texts.
func Userinfo(address string) []string {
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

// Environment returns the values of secret variables among NAME=VALUE pairs.
func Environment(environ []string) []string {
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
	for _, ending := range []string{"_KEY", "_TOKEN", "_SECRET", "PASSWORD", "_KEY_DATA"} {
		if strings.HasSuffix("_"+strings.ToUpper(name), ending) {
			return true
		}
	}
	return false
}
