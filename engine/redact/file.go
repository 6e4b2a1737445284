package redact

import (
	"bytes"
	"path"
	"regexp"
	"strings"
)

// privateFiles are names of files that hold credentials.
var privateFiles = regexp.MustCompile(`^(\.env(\..+)?|\.netrc|_netrc|\.pgpass|\.pypirc|\.git-credentials|\.htpasswd|id_(rsa|dsa|ecdsa|ed25519)|.+\.(p12|pfx|jks|keystore))$`)

// exampleFiles matches the endings of files that only show the form of private files.
var exampleFiles = regexp.MustCompile(`\.(example|sample|template|dist|defaults?|md)$`)

// maxScanned is the size, in bytes, up to which contents are searched for secrets.
const maxScanned = 1 << 20

// SecretFile reports whether a file holds credentials, judging by its name, or by a private
// key or a token in its content.
func SecretFile(name string, content []byte) bool {
	base := path.Base(name)
	if privateFiles.MatchString(base) && !exampleFiles.MatchString(base) {
		return true
	}
	return len(content) <= maxScanned && (keyHeader.Match(content) || hasToken(content))
}

// keyHeader matches the beginning of a private key's file, which may be cut off.
var keyHeader = regexp.MustCompile(`^\s*-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----\s+[A-Za-z0-9+/=]`)

// tokens match private keys and tokens. Each has a text that its matches contain. They are
// stricter than secretValue, because files may contain any text.
var tokens = []struct {
	prefix string
	form   *regexp.Regexp // form of the token, beginning at the prefix
}{
	{"-----BEGIN ", regexp.MustCompile(`^-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----\s+[A-Za-z0-9+/=:\s,-]{64}`)},
	{"sk-", regexp.MustCompile(`^sk-(proj-|ant-|or-v1-|svcacct-)?[A-Za-z0-9_-]{32,}`)},
	{"sk_live_", regexp.MustCompile(`^sk_live_[A-Za-z0-9]{20,}`)},
	{"gsk_", regexp.MustCompile(`^gsk_[A-Za-z0-9]{40,}`)},
	{"hf_", regexp.MustCompile(`^hf_[A-Za-z0-9]{30,}`)},
	{"ghp_", regexp.MustCompile(`^ghp_[A-Za-z0-9]{36}`)},
	{"gho_", regexp.MustCompile(`^gho_[A-Za-z0-9]{36}`)},
	{"ghs_", regexp.MustCompile(`^ghs_[A-Za-z0-9]{36}`)},
	{"github_pat_", regexp.MustCompile(`^github_pat_[A-Za-z0-9_]{60,}`)},
	{"glpat-", regexp.MustCompile(`^glpat-[A-Za-z0-9_-]{20,}`)},
	{"xoxb-", regexp.MustCompile(`^xoxb-[0-9]{8,}-[A-Za-z0-9-]{20,}`)},
	{"xoxp-", regexp.MustCompile(`^xoxp-[0-9]{8,}-[A-Za-z0-9-]{20,}`)},
	{"AKIA", regexp.MustCompile(`^AKIA[0-9A-Z]{16}([^0-9A-Za-z]|$)`)},
	{"AIza", regexp.MustCompile(`^AIza[0-9A-Za-z_-]{35}`)},
	{"pypi-AgEI", regexp.MustCompile(`^pypi-AgEI[A-Za-z0-9_-]{50,}`)},
	{"npm_", regexp.MustCompile(`^npm_[A-Za-z0-9]{36}`)},
}

// maxToken is the number of bytes that suffice to recognize a token at the beginning of a
// text.
const maxToken = 256

func hasToken(content []byte) bool {
	for _, t := range tokens {
		for rest := content; ; {
			at := bytes.Index(rest, []byte(t.prefix))
			if at < 0 {
				break
			}
			within := at > 0 && isWord(rest[at-1])
			rest = rest[at:]
			if !within && t.form.Match(rest[:min(len(rest), maxToken)]) && !repeats(rest[len(t.prefix):min(len(rest), 40)]) {
				return true
			}
			rest = rest[len(t.prefix):]
		}
	}
	return false
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// repeats reports whether a token is a placeholder, such as sk-xxxxxxxx.
func repeats(token []byte) bool {
	return len(token) >= 16 && strings.Count(string(token[:16]), string(token[:1])) > 12
}
