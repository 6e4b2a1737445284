package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/text"
)

var (
	// secretValue matches what API keys and tokens look like.
	secretValue = regexp.MustCompile(`^sk[-_].{6}|^(gsk|hf|r8|gh[opsu]|github_pat)_[A-Za-z0-9_]{10}|^(xai|pplx|nvapi|glpat)-[A-Za-z0-9_]{20}` +
		`|^xox[a-z]-.{10}|^(?i:bearer|basic) +\S|^A[KS]IA[0-9A-Z]{12}|^AIza.{20}|^eyJ[A-Za-z0-9_-]{10}|-----BEGIN `)

	// variableName is the name of an environment variable that may hold a key.
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// looksSecret says whether a value could be a secret. Such a value is never
// repeated in a message.
func looksSecret(value string) bool { return secretValue.MatchString(strings.TrimSpace(value)) }

// secretKey says whether a key's value could only be a secret.
func secretKey(key string) bool {
	folded := text.Fold(key)
	for _, name := range []string{"apikey", "apitoken", "accesstoken", "authtoken", "bearertoken", "authorization", "secretkey", "clientsecret"} {
		if strings.HasSuffix(folded, name) {
			return true
		}
	}
	return slices.Contains([]string{"key", "token", "secret", "password", "credentials"}, folded)
}

// keyVariable says what is wrong with the name of a key's variable, or "". It
// never repeats the name, which could be the key itself.
func keyVariable(name string) string {
	const example = "it takes the name of an environment variable, ending in _KEY or _TOKEN, such as OPENAI_API_KEY"
	upper := strings.ToUpper(name)
	switch {
	case looksSecret(name):
		return "this looks like an API key (not shown), which does not belong in a configuration; " + example
	case strings.HasPrefix(name, "$"):
		return "a variable's value, and a key does not belong in a configuration; write the variable's name alone, without $"
	case !variableName.MatchString(name):
		return "not the name of an environment variable (not shown, it could be a key); " + example
	case strings.HasPrefix(upper, "AWS_"), strings.HasPrefix(upper, "TEMPORAL_"):
		return "the variables AWS_… and TEMPORAL_… belong to the worker and are never sent anywhere else; name a variable that was made for this"
	case !strings.HasSuffix(name, "_KEY") && !strings.HasSuffix(name, "_TOKEN"):
		return "the variable's name must end in _KEY or _TOKEN (not shown, it could be a key); " + example
	}
	return ""
}

// address says what is wrong with the base URL of a server, or "".
func address(raw string) string {
	const example = "; it takes an address such as http://127.0.0.1:11434/v1"
	u, wrong := parseURL(raw, example, "name the variable that holds the key in api_key_env instead")
	if wrong == "" && (u.RawQuery != "" || u.ForceQuery || u.Fragment != "") {
		return "the URL has a query or fragment, to which no path can be added" + example
	}
	return wrong
}

// parseURL says what is wrong with the URL of something over HTTP, or "". It never
// repeats it, because it could contain a password.
func parseURL(raw, example, instead string) (u *url.URL, wrong string) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, "not a URL" + example
	case u.Scheme != "http" && u.Scheme != "https":
		return u, "not an http or https URL" + example
	case u.Hostname() == "":
		return u, "the URL has no host" + example
	case u.User != nil:
		return u, "the URL contains a user name or password; " + instead
	}
	return u, ""
}

// checkSecrets refuses literal secrets in values of the user's own.
func (d *decoder) checkSecrets(key string, value any) {
	switch value := value.(type) {
	case string:
		if looksSecret(value) {
			d.reportKey(key, "this looks like an API key (not shown), which does not belong in a configuration; name the variable that holds the key in %s", d.keyField())
		}
	case []any:
		for i, item := range value {
			d.checkSecrets(nth(key, i), item)
		}
	case map[string]any:
		for name, item := range value {
			if secretKey(name) && literal(item) {
				d.reportKey(join(key, name), "a literal secret does not belong in a configuration; name the variable that holds the key in %s", d.keyField())
				continue
			}
			d.checkSecrets(join(key, name), item)
		}
	}
}

// literal says whether a value could be a secret itself. A mapping could be the
// schema of one: its entries are looked at one by one.
func literal(value any) bool {
	switch value := value.(type) {
	case nil, bool, map[string]any:
		return false
	case []any:
		return slices.ContainsFunc(value, literal)
	case string:
		return value != ""
	}
	return true
}
