package compat

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// policyTitle is the first column of the table that says what peers of different age do.
const policyTitle = "| a peer meets |"

// policyTable gives the lines of the table in a text, in which each line has a mark in front.
func policyTable(text, mark string) ([]string, error) {
	var table []string
	for line := range strings.Lines(text) {
		line, marked := strings.CutPrefix(strings.TrimRight(line, " \n"), mark)
		isRow := marked && strings.HasPrefix(line, "|")
		switch {
		case isRow && (len(table) > 0 || strings.HasPrefix(line, policyTitle)):
			table = append(table, line)
		case len(table) > 0:
			return table, nil
		}
	}
	return table, errors.New("there is no table, or nothing behind it")
}

// policyFaults are the differences between the tables of the README and of the package comment.
func policyFaults(readme, doc string) (faults []string) {
	shown, err1 := policyTable(readme, "")
	said, err2 := policyTable(doc, "//\t")
	if err := errors.Join(err1, err2); err != nil {
		return []string{err.Error()}
	}
	if len(shown) < 10 {
		return []string{fmt.Sprintf("the table has %d lines", len(shown))}
	}
	for i := range max(len(shown), len(said)) {
		var a, b string
		if i < len(shown) {
			a = shown[i]
		}
		if i < len(said) {
			b = said[i]
		}
		if a != b {
			faults = append(faults, fmt.Sprintf("line %d of the table\nin the README: %s\nin doc.go:     %s", i+1, a, b))
		}
	}
	return faults
}

func policyTexts(t *testing.T) (readme, doc string) {
	t.Helper()
	a, err1 := os.ReadFile("../README.md")
	b, err2 := os.ReadFile("doc.go")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return string(a), string(b)
}

// TestPolicyIsOne: what is promised to users is what those who change the code read.
func TestPolicyIsOne(t *testing.T) {
	report(t, policyFaults(policyTexts(t)))
}

// TestPolicySaysWhatItMust names what the table must not lose.
func TestPolicySaysWhatItMust(t *testing.T) {
	readme, _ := policyTexts(t)
	table, err := policyTable(readme, "")
	if err != nil {
		t.Fatal(err)
	}
	for what, words := range map[string]string{
		"what a newer peer does with an older one": "an older peer",
		"how long a version stays readable":        "readable for ever",
		"how a new version comes in":               "readers first",
		"when it may be written":                   "`quoin topic describe`",
	} {
		if !slices.ContainsFunc(table, func(line string) bool { return strings.Contains(line, words) }) {
			t.Errorf("the table does not say %s", what)
		}
	}
}

func TestPolicyCanFail(t *testing.T) {
	readme, doc := policyTexts(t)
	const row = "| a control batch |"
	for name, texts := range map[string][2]string{
		"a word in the README":  {strings.Replace(readme, row, "| some batch |", 1), doc},
		"a word in doc.go":      {readme, strings.Replace(doc, row, "| some batch |", 1)},
		"a row less":            {readme, strings.Replace(doc, "//\t"+row, "//\t\n//\t"+row, 1)},
		"a row more":            {strings.Replace(readme, row, "| more | of it |\n"+row, 1), doc},
		"no table in doc.go":    {readme, strings.Replace(doc, policyTitle, "| peers |", 1)},
		"no table in either":    {"", ""},
		"both have lost theirs": {policyTitle + "\n\n", "//\t" + policyTitle + "\n//\n"},
	} {
		if policyFaults(texts[0], texts[1]) == nil {
			t.Errorf("%s: nobody notices", name)
		}
	}
}
