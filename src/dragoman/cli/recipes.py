"""`dragoman recipes`: list or print the built-in recipes."""

from typing import Annotated

import typer

from dragoman.cli.command import check_name


def _recipe_names() -> list[str]:
    from dragoman.recipes.catalog import recipe_names

    return recipe_names()


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Print the recipe NAME, to copy and edit.", autocompletion=_recipe_names),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of recipes, for completion in editors.")
    ] = False,
) -> None:
    """List the built-in recipes, and the data that each recipe needs.

    To train a recipe by name: dragoman train multi30k-en-de --out run/. Its data are below the folder that the
    environment variable DRAGOMAN_DATA names.

        dragoman recipes

        dragoman recipes multi30k-en-de > my-recipe.yaml

        dragoman recipes --schema > schema.json
    """
    import json

    from dragoman.recipes.catalog import library_path, list_recipes, recipe_names
    from dragoman.recipes.recipe import Recipe
    from dragoman.recipes.schema import json_schema

    if schema:
        print(json.dumps(json_schema(Recipe), indent=2, ensure_ascii=False))
        return
    if name is not None:
        check_name("recipe", name, recipe_names())
        print(library_path(name).read_text(encoding="utf-8"), end="")
        return
    for entry in list_recipes():
        found = len(entry.files) - len(entry.missing)
        print(f"{entry.name}\n  {entry.description}")
        if not entry.is_generated:
            print(f"  data: {found} of {len(entry.files)} files are in {', '.join(entry.folders)}")
        if entry.missing or entry.is_generated:
            print(f"  to get the data: {entry.obtain}")
