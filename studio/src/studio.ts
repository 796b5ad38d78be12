// The studio's page.
import { mount } from "svelte";
import App from "./app/App.svelte";
import "./studio.css";

mount(App, { target: document.getElementById("app")! });
