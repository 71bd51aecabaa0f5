"""The objects of `list`, `show` and `museum`."""

from dpsim.cli.json_fields.field import JsonField

LIST = (
    JsonField("scenarios", "list of objects, may be absent", "the scenarios that come with dpsim"),
    JsonField("scenarios[].name", "text", "for `dpsim run NAME`"),
    JsonField("scenarios[].description", "text", "what it shows"),
    JsonField("scenarios[].file", "text", "its file"),
    JsonField("protocols", "list of objects, may be absent", "registered programs"),
    JsonField("protocols[].name", "text", "for `protocol.name`"),
    JsonField("protocols[].forms", "list of text", "its forms, the default first"),
    JsonField("protocols[].summary", "text", "what it does"),
    JsonField("protocols[].protects", "object, may be absent", "by form, what it protects although no release does"),
    JsonField("protocols[].protects.*", "list of text", "a sentence each"),
    JsonField("protocols[].unprotected", "object, may be absent", "by form, what it leaves unprotected"),
    JsonField("protocols[].unprotected.*", "list of text", "a sentence each"),
    JsonField("protocols[].params", "object, may be absent", "the parameters of a program with `Params`"),
    JsonField("protocols[].params.*", "text", "the values of this parameter"),
    JsonField("variants", "list of objects, may be absent", "registered variants"),
    JsonField("variants[].name", "text", "for `protocol.variant`"),
    JsonField("variants[].protocol", "text", "the program that it changes"),
    JsonField("variants[].form", "text or null", "the form that it changes"),
    JsonField("variants[].expected", "text or null", "the class that catches it"),
    JsonField("variants[].reason", "text or null", "why no class catches it"),
    JsonField("variants[].summary", "text", "what it does wrong"),
    JsonField("backends", "list of objects, may be absent", "installed backends"),
    JsonField("backends[].name", "text", "for `--backend`"),
    JsonField("backends[].reason", "text or null", "why it cannot run two ranks here"),
)

SHOW = (
    JsonField("meanings", "list of objects", "each meaning of the name"),
    JsonField(
        "meanings[].kind", "text", "`scenario`, `protocol`, `variant`, `class`, `backend`, `key`, `exit code` or `hook`"
    ),
    JsonField("meanings[].name", "text", "the name; further keys of an entry are those of `list`"),
    JsonField("meanings[].text", "text, of a scenario", "the content of its file"),
    JsonField("meanings[].doc", "text, of a protocol", "its docstring"),
    JsonField("meanings[].file", "text, of a protocol or scenario", "its file"),
    JsonField("meanings[].variants", "list of text, of a protocol or class", "the variants of it"),
    JsonField("meanings[].family", "text, of a class", "the kind of trouble"),
    JsonField("meanings[].meaning", "text, of a class or key", "the event or the rule"),
    JsonField("meanings[].cure", "text, of a class", "what to do"),
    JsonField("meanings[].outcome", "list of text, of an exit code", "the meaning of the code"),
    JsonField("meanings[].output", "text, of an exit code", "where the command prints details"),
)

CARDS = (
    JsonField("cards", "list of objects", "an object for each named variant"),
    JsonField("cards[].id", "text", "its name"),
    JsonField("cards[].mistake", "text", "what it does wrong"),
    JsonField("cards[].exhibit", "text or null", "the scenario that shows it"),
    JsonField("cards[].shown_by", "text or null", "what this scenario shows"),
    JsonField("cards[].protocol", "text", "the program"),
    JsonField("cards[].form", "text", "the form"),
    JsonField("cards[].twin", "text or null", "the healthy variant that it is made from, if that is no form"),
    JsonField("cards[].class", "text or null", "the class that must catch it"),
    JsonField("cards[].reason", "text or null", "why no class catches it"),
    JsonField("cards[].source", "text", "its Python name"),
    JsonField("cards[].run", "text or null", "a command that runs it"),
    JsonField("cards[].explore", "text or null", "a command that explores it"),
)

MUSEUM = (
    JsonField("limit", "number", "the most schedules of a search"),
    JsonField("entries", "list of objects", "an object for each shown variant"),
    JsonField("entries[].id", "text", "its name"),
    JsonField("entries[].exhibit", "text", "the scenario that shows it"),
    JsonField("entries[].class", "text or null", "the class that must catch it"),
    JsonField("entries[].reason", "text or null", "why no class catches it"),
    JsonField("entries[].found", "text or null", "the class that was found"),
    JsonField("entries[].by", "text or null", "the check that found it"),
    JsonField("entries[].instead", "list of text", "classes that were found in its place"),
    JsonField("entries[].schedules", "object", "by strategy, the schedules until it was found"),
    JsonField("entries[].schedules.*", "object", "`median`, `worst`, `searches` and `missed`; null is a miss"),
    JsonField("entries[].twin", "object", "the healthy twin"),
    JsonField("entries[].twin.verdict", "text", "its verdict"),
    JsonField("entries[].twin.schedules", "number", "its schedules"),
    JsonField("entries[].twin.class", "text or null", "the class of its first finding"),
    JsonField("entries[].wrong", "list of text", "what is not as registered"),
    JsonField("without_exhibit", "list of text", "variants without a scenario"),
    JsonField("not_reached", "list of text", "variants that the budget did not reach"),
    JsonField("as_registered", "true or false", "whether all are as registered"),
)
