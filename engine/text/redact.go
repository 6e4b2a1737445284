package text

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// mask replaces a removed secret.
const mask = "[redacted]"

// Redactor replaces secrets with a mask. A nil Redactor changes nothing.
type Redactor struct{ replacer *strings.Replacer }

// NewRedactor returns a Redactor that removes secrets and their encodings, or nil without secrets.
func NewRedactor(secrets []string) *Redactor {
	var pairs []pair
	for _, secret := range secrets {
		for _, spelling := range encodedSpellings(secret) {
			pairs = append(pairs, pair{spelling, mask})
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	return &Redactor{newReplacer(pairs)}
}

// String returns s without secrets.
func (r *Redactor) String(s string) string {
	if r == nil {
		return s
	}
	return r.replacer.Replace(s)
}

// Bytes returns data without secrets.
func (r *Redactor) Bytes(data []byte) []byte {
	if r == nil {
		return data
	}
	return []byte(r.replacer.Replace(string(data)))
}

// Error returns err if its text contains no secret. Otherwise it returns an error with the
// redacted text, which matches in errors.Is as err does, but does not unwrap.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	if message := r.String(err.Error()); message != err.Error() {
		return &redactedError{message, err}
	}
	return err
}

type redactedError struct {
	message string
	cause   error
}

func (e *redactedError) Error() string { return e.message }

func (e *redactedError) Is(target error) bool { return errors.Is(e.cause, target) }

// Vault replaces secrets with markers and restores them. A nil Vault changes nothing.
type Vault struct {
	redactor                   *Redactor // replaces secrets and markers
	hide, restore, restoreJSON *strings.Replacer
}

// NewVault returns a Vault for secrets, or nil if secrets is empty. Markers derive from seed,
// which must be secret so that foreign text cannot contain one.
func NewVault(seed string, secrets []string) *Vault {
	sum := sha256.Sum256([]byte("credential " + seed))
	var hide, restore, restoreJSON, redact []pair
	for i, value := range longestFirst(formVariants(secrets)) {
		marker := fmt.Sprintf("[credential-%s-%d]", hex.EncodeToString(sum[:6]), i+1)
		quoted := jsonString(value, false)
		hide = append(hide, pair{value, marker}, pair{quoted, marker})
		restore = append(restore, pair{marker, value})
		restoreJSON = append(restoreJSON, pair{marker, quoted})
		redact = append(redact, pair{marker, mask})
		for _, spelling := range encodedSpellings(value) {
			redact = append(redact, pair{spelling, mask})
		}
	}
	if len(hide) == 0 {
		return nil
	}
	return &Vault{&Redactor{newReplacer(redact)}, newReplacer(hide), newReplacer(restore), newReplacer(restoreJSON)}
}

// Hide replaces secrets with markers.
func (v *Vault) Hide(s string) string {
	if v == nil {
		return s
	}
	return v.hide.Replace(s)
}

// Restore replaces markers with secrets.
func (v *Vault) Restore(s string) string {
	if v == nil {
		return s
	}
	return v.restore.Replace(s)
}

// RestoreJSON replaces markers within the strings of a JSON document with secrets.
func (v *Vault) RestoreJSON(document string) string {
	if v == nil {
		return document
	}
	return v.restoreJSON.Replace(document)
}

// Redact replaces secrets and markers with a mask.
func (v *Vault) Redact(s string) string {
	if v == nil {
		return s
	}
	return v.redactor.String(s)
}

type pair struct{ old, new string }

// newReplacer returns a replacer that prefers the longest of the texts that begin at the same
// byte, because one secret may be a prefix of another.
func newReplacer(pairs []pair) *strings.Replacer {
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(len(b.old), len(a.old)), strings.Compare(a.old, b.old))
	})
	var texts []string
	for _, p := range slices.CompactFunc(pairs, func(a, b pair) bool { return a.old == b.old }) {
		texts = append(texts, p.old, p.new)
	}
	return strings.NewReplacer(texts...)
}

// formVariants adds the secrets as URLs and forms encode them.
func formVariants(secrets []string) []string {
	all := slices.Clone(secrets)
	for _, secret := range secrets {
		encoded := url.QueryEscape(secret)
		all = append(all, encoded, strings.ReplaceAll(encoded, "+", "%20"))
	}
	return all
}

func longestFirst(secrets []string) []string {
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	return slices.Compact(secrets)
}

// encodedSpellings returns a secret and its encodings: in a URL, in a JSON string, and in a JSON string
// within another one, such as the arguments of a tool call. Encoders differ in the characters they escape.
func encodedSpellings(secret string) []string {
	all := formVariants([]string{secret})
	for _, html := range []bool{false, true} {
		once := jsonString(secret, html)
		all = append(all, once, jsonString(once, false), jsonString(once, true))
	}
	return all
}

// jsonString returns s as it appears between the quotes of a JSON string, with or without the
// escapes of HTML.
func jsonString(s string, html bool) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(html)
	_ = encoder.Encode(s) // a string and a buffer never fail
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}
