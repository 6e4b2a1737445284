package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/redact"
)

// variableName matches names of environment variables.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// checkVariable checks the name of an API key's variable. Messages do not repeat
// it, since it could be the key itself.
func (d *Decoder) checkVariable(key, name string) {
	const example = "it takes the name of an environment variable, ending in _KEY or _TOKEN, such as OPENAI_API_KEY"
	upper := strings.ToUpper(name)
	switch {
	case redact.LooksSecret(name):
		d.Report(key, "this looks like an API key (not shown), which does not belong in a configuration; %s", example)
	case strings.HasPrefix(name, "$"):
		d.Report(key, "a variable's value, and a key does not belong in a configuration; write the variable's name alone, without $")
	case !variableName.MatchString(name):
		d.Report(key, "not the name of an environment variable (not shown, it could be a key); %s", example)
	case strings.HasPrefix(upper, "AWS_"), strings.HasPrefix(upper, "TEMPORAL_"):
		d.Report(key, "the variables AWS_… and TEMPORAL_… belong to the worker and are never sent anywhere else; name a variable that was made for this")
	case !strings.HasSuffix(name, "_KEY") && !strings.HasSuffix(name, "_TOKEN"):
		d.Report(key, "the variable's name must end in _KEY or _TOKEN (not shown, it could be a key); %s", example)
	}
}

// checkBaseURL checks the address of an API server, to which paths are added.
func (d *Decoder) checkBaseURL(key, raw string) {
	const example = "it takes an address such as http://127.0.0.1:11434/v1"
	u, ok := d.checkURL(key, raw, example, "name the variable that holds the key in api_key_env instead")
	if ok && (u.RawQuery != "" || u.ForceQuery || u.Fragment != "") {
		d.Report(key, "the URL has a query or fragment, to which no path can be added; %s", example)
	}
}

// checkURL checks an HTTP address. Messages do not repeat it, since it could contain a
// password. Example and instead are remedies.
func (d *Decoder) checkURL(key, raw, example, instead string) (u *url.URL, ok bool) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		d.Report(key, "not a URL; %s", example)
	case u.Scheme != "http" && u.Scheme != "https":
		d.Report(key, "not an http or https URL; %s", example)
	case u.Hostname() == "":
		d.Report(key, "the URL has no host; %s", example)
	case u.User != nil:
		d.Report(key, "the URL contains a user name or password; %s", instead)
	default:
		return u, true
	}
	return nil, false
}

// checkSecrets refuses literal secrets in a value without a schema.
func (d *Decoder) checkSecrets(key string, value any) {
	switch value := value.(type) {
	case string:
		if redact.LooksSecret(value) {
			d.Report(key, "this looks like an API key (not shown), which does not belong in a configuration; name the variable that holds the key in %s", d.keyField())
		}
	case []any:
		for i, item := range value {
			d.checkSecrets(nth(key, i), item)
		}
	case map[string]any:
		for name, item := range value {
			if redact.SecretKey(name) && isLiteral(item) {
				d.Report(join(key, name), "a literal secret does not belong in a configuration; name the variable that holds the key in %s", d.keyField())
				continue
			}
			d.checkSecrets(join(key, name), item)
		}
	}
}

// isLiteral reports whether a value could itself be a secret. A mapping could not: it may be
// a schema, and its entries are checked one by one.
func isLiteral(value any) bool {
	switch value := value.(type) {
	case nil, bool, map[string]any:
		return false
	case []any:
		return slices.ContainsFunc(value, isLiteral)
	case string:
		return value != ""
	}
	return true
}
